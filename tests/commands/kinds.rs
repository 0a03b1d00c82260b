//! The kinds that `conceptwatch score` reads from values, states and is told, and labels that mean something else.

use std::path::PathBuf;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::common::{Done, program};

const ROWS: usize = 400;
const K: usize = 3;

/// What the kinds decide, without scores that train networks.
const SCORES: &str = "ctl,concept_accuracy,concept_auc,concept_average_precision,task_accuracy,task_f1,task_auc";

/// Concepts of 0 and 1, logits that predict them in nine of ten rows, and a task of two classes.
struct Data {
    logits: Vec<f64>,
    labels: Vec<f64>,
    task: Vec<f64>,
}

fn data() -> Data {
    let mut random = ChaCha8Rng::seed_from_u64(34);
    let (mut logits, mut labels, mut task) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROWS {
        let concepts: Vec<f64> = (0..K).map(|_| f64::from(random.random_range(0..2_u8))).collect();
        let noise = |random: &mut ChaCha8Rng| (0..4).map(|_| random.random_range(-1.0..1.0)).sum::<f64>();
        logits.extend(concepts.iter().map(|c| 4.0 * c - 2.0 + 1.3 * noise(&mut random)));
        task.push(f64::from(u8::from(concepts.iter().sum::<f64>() >= 2.0)));
        labels.extend(concepts);
    }
    Data { logits, labels, task }
}

fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

impl Data {
    fn probabilities(&self) -> Vec<f64> {
        self.logits.iter().map(|&logit| sigmoid(logit)).collect()
    }
}

/// Returns a table of these arrays, each with its number of columns.
struct Table {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn table(arrays: &[(&str, usize, &[f64])]) -> Table {
    let mut text = String::new();
    let names = arrays.iter().flat_map(|(name, width, _)| match width {
        1 => vec![(*name).to_owned()],
        _ => (0..*width).map(|i| format!("{name}.{i}")).collect(),
    });
    text += &names.collect::<Vec<_>>().join(",");
    for row in 0..arrays[0].2.len() / arrays[0].1 {
        let cells = arrays.iter().flat_map(|(_, width, values)| &values[row * width..(row + 1) * width]);
        text += "\n";
        text += &cells.map(f64::to_string).collect::<Vec<_>>().join(",");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text + "\n").unwrap();
    Table { _folder: folder, path }
}

/// Activations with the labels of `data` and its task.
fn of(activations: &[f64], labels: &[f64]) -> Table {
    table(&[("concept_activations", K, activations), ("concept_labels", K, labels), ("task_labels", 1, &data().task)])
}

impl Table {
    /// The JSON, and what is said beside it.
    fn json(&self, arguments: &[&str]) -> (Value, String) {
        let (text, said) = self.score(&[&["--json"], arguments].concat());
        (serde_json::from_str(&text).unwrap(), said)
    }

    fn text(&self, arguments: &[&str]) -> String {
        self.score(arguments).0
    }

    /// What is printed, and what is said beside it.
    fn score(&self, arguments: &[&str]) -> (String, String) {
        let (mut command, shared) = (program(), ["--no-tests", "--scores", SCORES]);
        let done = Done::of(command.arg("score").arg(&self.path).args(shared).args(arguments));
        assert_eq!(done.status, Some(0), "{}", done.err);
        (done.out, done.err)
    }

    /// It is refused with one line that says all of this; of wrong options, with what clap says.
    fn refused(&self, arguments: &[&str], says: &[&str]) {
        let error = Done::of(program().arg("score").arg(&self.path).args(arguments)).refused(2);
        says.iter().for_each(|text| assert!(error.contains(text), "'{text}' in {error}"));
    }
}

fn value(object: &Value, id: &str) -> f64 {
    object["scores"][id]["value"].as_f64().unwrap_or_else(|| panic!("{id}: {}", object["scores"][id]))
}

fn warnings(object: &Value) -> String {
    object["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned() + "\n").collect()
}

#[test]
fn kinds_are_printed_and_so_is_which_of_them_are_guessed() {
    let data = data();
    let logits = of(&data.logits, &data.labels);
    let (object, _) = logits.json(&[]);
    assert_eq!(
        (&object["activation_kind"], &object["concept_kind"], &object["task_kind"]),
        (&json!("logit"), &json!("class"), &json!("class"))
    );
    assert_eq!(object["guessed"], json!(["activation_kind", "concept_kind", "task_kind"]));
    let first = |text: String| text.lines().next().unwrap().to_owned();
    assert!(
        first(logits.text(&[]))
            .ends_with(" s, ± 95 %; guessed: activation_kind logit, concept_kind class, task_kind class")
    );
    let stated = ["--activation-kind", "continuous", "--concept-kind", "class", "--task-kind", "continuous"];
    let (object, _) = logits.json(&stated);
    assert_eq!(
        (&object["activation_kind"], &object["task_kind"], &object["guessed"]),
        (&json!("continuous"), &json!("continuous"), &json!([]))
    );
    assert!(!first(logits.text(&stated)).contains("guessed"));
    let expected = "got 'soft', expected hard, probability, logit or continuous";
    logits.refused(&["--activation-kind", "soft"], &[expected]);
    let halves: Vec<f64> = data.labels.iter().enumerate().map(|(at, c)| if at == 5 { 0.5 } else { *c }).collect();
    let says = ["concept_labels: row 1 has 0.5", "pass --concept-kind NAME=continuous"];
    of(&data.logits, &halves).refused(&["--concept-kind", "class"], &says);
}

#[test]
fn a_soft_column_is_a_number_and_leaves_the_others_as_they_are() {
    let data = data();
    let soften = |at: usize, c: f64| if at.is_multiple_of(K) && (at / K).is_multiple_of(10) { 0.5 } else { c };
    let halves: Vec<f64> = data.labels.iter().enumerate().map(|(at, c)| soften(at, *c)).collect();
    let (whole, _) = of(&data.probabilities(), &data.labels).json(&[]);
    let table = of(&data.probabilities(), &halves);
    let (object, said) = table.json(&[]);
    assert_eq!(object["concept_kind"], json!(["continuous", "class", "class"]));
    assert_eq!(object["activation_kind"], json!(["continuous", "probability", "probability"]));
    assert!(
        table
            .text(&[])
            .contains("; guessed: activation_kind c0=continuous,c1=probability,c2=probability, concept_kind")
    );
    let doubt =
        "40 of 400 labels of 'c0' are between 0 and 1, such as 0.5: it is read as a number, the others as classes";
    assert!(said.contains(doubt) && said.contains("pass --soft-labels threshold"), "{said}");
    let accuracy = |object: &Value, i: usize| object["scores"]["concept_accuracy"]["per_concept"][i].clone();
    assert_eq!(accuracy(&object, 0), json!(null));
    for i in [1, 2] {
        assert_eq!(accuracy(&object, i), accuracy(&whole, i), "{i}");
        assert!(accuracy(&object, i).as_f64().unwrap() > 0.8);
    }
    // By the rule for certainties the halves are unknown, and everything is a class.
    let (object, said) = table.json(&["--soft-labels", "threshold"]);
    assert_eq!((&object["concept_kind"], &object["activation_kind"]), (&json!("class"), &json!("probability")));
    assert_eq!(object["concept_rows"], json!([360, 400, 400]));
    assert!(said.contains("40 of 1200 labels are unknown, being certainties of exactly 0.5"), "{said}");
    let (wider, _) = table.json(&["--soft-labels", "0.4,0.6"]);
    assert_eq!(wider["scores"], object["scores"]);
    let beyond: Vec<f64> = halves.iter().enumerate().map(|(at, c)| if at == 4 { 1.25 } else { *c }).collect();
    let says = "concept_labels: row 1 has 1.25 for concept 'c1', expected 0 to 1 with --soft-labels";
    of(&data.probabilities(), &beyond).refused(&["--soft-labels", "threshold"], &[says]);
    table.refused(&["--soft-labels", "0.6,0.4"], &["expected threshold, or LOW,HIGH"]);
}

#[test]
fn a_code_for_unknown_labels_does_not_make_classes_numbers() {
    let data = data();
    let coded = |labels: &[f64], codes: &[f64]| -> Vec<f64> {
        labels.iter().enumerate().map(|(at, c)| if at % 5 == 3 { codes[at / 5 % codes.len()] } else { *c }).collect()
    };
    // Floats, because another column has fractions.
    let with = |labels: &[f64], task: &[f64]| {
        let tasks: Vec<f64> = task.iter().zip(&data.logits).flat_map(|(task, logit)| [*task, *logit]).collect();
        table(&[("concept_activations", K, &data.logits), ("concept_labels", K, labels), ("task_labels", 2, &tasks)])
    };
    for codes in [&[-999.0][..], &[-9.0], &[-7.0, -8.0, -9.0]] {
        let expected = format!(
            "task_labels: row 3 has {} for task 't0', expected 0 to 1 (classes); for unknown labels pass --missing-labels \
             and send -1; for measured quantities pass --task-kind NAME=continuous\n",
            codes[0]
        );
        with(&data.labels, &coded(&data.task, codes)).refused(&[], &[&expected]);
    }
    // A positive code, too, is named with its row.
    let says = "row 3 has 99999 for task 't0', expected 0 to 65535 (classes)";
    with(&data.labels, &coded(&data.task, &[99_999.0])).refused(&[], &[says]);
    // Also where there are many classes, and none where many numbers are negative.
    let rows = |of: &dyn Fn(usize) -> f64| (0..ROWS).map(of).collect::<Vec<f64>>();
    let birds = coded(&rows(&|row| (row % 100) as f64), &[-999.0]);
    with(&data.labels, &birds).refused(&[], &["row 3 has -999"]);
    let kind = |task: &[f64]| with(&data.labels, task).json(&[]).0["task_kind"].clone();
    assert_eq!(kind(&rows(&|row| (row % 41) as f64 - 10.0)), json!("continuous"));
    assert_eq!(kind(&rows(&|row| (row % 41) as f64 + 70_000.0)), json!("continuous"));
    let halves = |labels: Vec<f64>| -> Vec<f64> {
        labels.iter().enumerate().map(|(at, c)| if at % K == 1 { c / 2.0 } else { *c }).collect()
    };
    let concepts = |labels: Vec<f64>| with(&halves(labels), &data.task);
    let says = ["row 1 has -9 for concept 'c0'", "--concept-kind NAME=continuous"];
    concepts(coded(&data.labels, &[-9.0])).refused(&[], &says);
    let says = "has 2 for concept 'c0', expected 0 to 1; classes count from 0, so subtract 1";
    concepts(data.labels.iter().map(|c| c + 1.0).collect()).refused(&[], &[says]);
    let ages = data.labels.iter().enumerate().map(|(at, c)| 20.0 + 30.0 * c + (at % 29) as f64).collect();
    assert_eq!(concepts(ages).json(&[]).0["concept_kind"], json!("continuous"));
}

#[test]
fn whole_numbers_are_read_as_the_same_floats() {
    let data = data();
    let ages: Vec<f64> = data.labels.iter().enumerate().map(|(at, c)| 20.0 + 30.0 * c + (at % 29) as f64).collect();
    assert_eq!(of(&data.logits, &ages).json(&[]).0["concept_kind"], json!("continuous"));
    let with = |task: Vec<f64>| {
        let labels = ("concept_labels", K, &data.labels[..]);
        table(&[("concept_activations", K, &data.logits), labels, ("task_labels", 1, &task)])
    };
    let amounts = |from: f64| (0..ROWS).map(|row| from + (row % 41) as f64).collect();
    for from in [-10.0, 70_000.0] {
        assert_eq!(with(amounts(from)).json(&[]).0["task_kind"], json!("continuous"), "{from}");
    }
    // They may be amounts as well where most numbers up to the largest do not occur.
    let (object, said) = with((0..ROWS).map(|row| 300.0 + 37.0 * (row % 100) as f64).collect()).json(&[]);
    assert_eq!(object["task_kind"], json!("class"));
    assert!(said.starts_with("task_labels: 100 different whole numbers up to 3963: read as classes"), "{said}");
    assert_eq!(with((0..ROWS).map(|row| (row % 200) as f64).collect()).json(&[]).1, "");
    // Few of them may be codes.
    let says = ["--missing-labels", "pass --task-kind continuous\n"];
    with(data.task.iter().map(|y| y - 9.0).collect()).refused(&[], &says);
    let says = "expected 0 to 1; for measured quantities pass --concept-kind NAME=continuous\n";
    of(&data.logits, &data.labels.iter().map(|c| 5.0 * c).collect::<Vec<_>>()).refused(&[], &[says]);
}

#[test]
fn a_concept_is_told_its_kinds_by_name() {
    let data = data();
    // The first concept is a number in a unit of its own, the second has probabilities, the third logits.
    let activations = |at: usize, x: f64| [1_000.0 * x, sigmoid(x), x][at % K];
    let mixed: Vec<f64> = data.logits.iter().enumerate().map(|(at, x)| activations(at, *x)).collect();
    let numbers = |at: usize, c: f64| if at.is_multiple_of(K) { 3_000.0 * c + at as f64 } else { c };
    let labels: Vec<f64> = data.labels.iter().enumerate().map(|(at, c)| numbers(at, *c)).collect();
    let stated = ["--concept-kind", "class,c0=continuous", "--activation-kind", "logit,c1=probability"];
    let (object, _) = of(&mixed, &labels).json(&stated);
    assert_eq!(object["concept_kind"], json!(["continuous", "class", "class"]));
    assert_eq!(object["activation_kind"], json!(["continuous", "probability", "logit"]));
    assert_eq!(object["guessed"], json!(["task_kind"]));
    let (expected, _) = of(&data.logits, &data.labels).json(&["--activation-kind", "logit"]);
    for i in [1, 2] {
        assert_eq!(
            object["scores"]["concept_accuracy"]["per_concept"][i],
            expected["scores"]["concept_accuracy"]["per_concept"][i]
        );
    }
    let table = of(&mixed, &labels);
    let says = "got the concept 'size', expected one of c0, c1, c2";
    table.refused(&["--concept-kind", "size=continuous"], &[says]);
    let says = "got logit for 'c0', whose labels are continuous, expected continuous";
    table.refused(&["--concept-kind", "class,c0=continuous", "--activation-kind", "c0=logit"], &[says]);
    table.refused(&["--concept-kind", "class"], &["for concept 'c0'"]);
}

#[test]
fn each_task_of_a_file_has_the_kind_of_its_own_column() {
    let data = data();
    let number = |row: usize| data.labels[row * K..(row + 1) * K].iter().sum::<f64>() + (row % 7) as f64 / 8.0;
    let of_both = |number: &dyn Fn(usize) -> f64| {
        let tasks: Vec<f64> = (0..ROWS).flat_map(|row| [data.task[row], number(row)]).collect();
        let activations = ("concept_activations", K, &data.logits[..]);
        table(&[
            activations,
            ("concept_labels", K, &data.labels),
            ("task_labels", 2, &tasks),
            ("task_predictions", 2, &tasks),
        ])
    };
    let mixed = of_both(&number);
    let (object, said) = mixed.json(&[]);
    assert_eq!((&object["tasks"], &object["task_kind"]), (&json!(["t0", "t1"]), &json!(["class", "continuous"])));
    assert_eq!((&object["guessed"][2], said.as_str()), (&json!("task_kind"), ""));
    assert!(mixed.text(&[]).lines().next().unwrap().ends_with("task_kind t0=class,t1=continuous"));
    let ctl = |object: &Value| object["scores"]["ctl"].clone();
    for (task, own) in [data.task.clone(), (0..ROWS).map(number).collect()].iter().enumerate() {
        let labels = [("concept_activations", K, &data.logits[..]), ("concept_labels", K, &data.labels)];
        let (single, _) = table(&[&labels[..], &[("task_labels", 1, &own[..])]].concat()).json(&[]);
        assert_eq!(ctl(&object)["per_task"][task], ctl(&single), "{task}");
    }
    let accuracy = &object["scores"]["task_accuracy"];
    assert_eq!((accuracy["value"].as_f64(), &accuracy["per_task"][0]["value"]), (Some(1.0), &json!(1.0)));
    assert_eq!(accuracy["per_task"][1]["undefined"], "the task labels are not classes");
    // Amounts in whole numbers are named, and may be stated for their task alone or for all.
    let amounts = of_both(&|row| 300.0 + 37.0 * (row % 100) as f64);
    let (object, said) = amounts.json(&[]);
    assert_eq!(object["task_kind"], "class");
    assert!(
        said.starts_with("task_labels of 't1': 100 different whole numbers up to 3963: read as classes")
            && said.contains("pass --task-kind t1=continuous"),
        "{said}"
    );
    let (object, said) = amounts.json(&["--task-kind", "t1=continuous"]);
    assert_eq!((&object["task_kind"], said.as_str()), (&json!(["class", "continuous"]), ""));
    assert_eq!(amounts.json(&["--task-kind", "continuous"]).0["task_kind"], "continuous");
    let says = "--task-kind: got the task 'age', expected one of t0, t1";
    amounts.refused(&["--task-kind", "age=continuous"], &[says]);
    let says = ["for task 't1', expected class numbers", "pass --task-kind NAME="];
    mixed.refused(&["--task-kind", "class"], &says);
}

#[test]
fn a_rounding_error_above_1_changes_no_score() {
    let data = data();
    let largest = |with: f64| {
        let mut probabilities = data.probabilities();
        let at = (0..probabilities.len()).max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b])).unwrap();
        probabilities[at] = with;
        of(&probabilities, &data.labels).json(&[])
    };
    let (exact, _) = largest(1.0);
    assert!(value(&exact, "concept_accuracy") > 0.85);
    for with in [1.000_000_1, 1.000_000_9] {
        let (rounded, said) = largest(with);
        assert_eq!(rounded["scores"], exact["scores"], "{with}");
        assert_eq!((&rounded["activation_kind"], said.as_str()), (&json!("probability"), ""));
        assert_eq!(warnings(&rounded), "");
    }
    // Farther away it is said, and the others are still probabilities.
    let (beyond, _) = largest(1.02);
    assert_eq!(beyond["activation_kind"], "probability");
    assert_eq!(value(&beyond, "concept_accuracy"), value(&exact, "concept_accuracy"));
    let once = "concept_activations: 1 of 1200 values are not from 0 to 1, such as 1.0200: read as probabilities, ";
    assert_eq!(warnings(&beyond).matches(once).count(), 1, "{beyond}");
    // So it is where the kind is stated.
    let (stated, _) = of(&data.logits, &data.labels).json(&["--activation-kind", "probability"]);
    assert!(warnings(&stated).contains(": read as probabilities, with the threshold 0.5"), "{stated}");
}

#[test]
fn what_no_threshold_separates_is_neither_a_probability_nor_a_logit_nor_a_class() {
    let data = data();
    let scaled =
        |low: f64, high: f64| -> Vec<f64> { data.probabilities().iter().map(|p| low + (high - low) * p).collect() };
    let whole: Vec<f64> = scaled(15.0, 33.0).into_iter().map(f64::round).collect();
    for (activations, what) in
        [(scaled(0.1, 0.4), "similarities"), (scaled(18.0, 31.0), "percent"), (whole, "integers")]
    {
        let table = of(&activations, &data.labels);
        let (object, said) = table.json(&[]);
        assert_eq!(object["activation_kind"], "continuous", "{what}");
        assert_eq!(
            object["scores"]["concept_accuracy"]["undefined"],
            "the concepts are continuous, they predict no class"
        );
        assert!(value(&object, "concept_auc") > 0.95 && value(&object, "concept_average_precision") > 0.9, "{what}");
        assert!(said.contains("read as continuous") && said.contains("--activation-kind"), "{what}: {said}");
        assert!(warnings(&object).contains(said.trim_end()), "{what}");
        assert!(table.text(&[]).contains("note: concept_activations: values from "), "{what}");
    }
    // Where it is stated, the threshold that separates nothing is named.
    let (object, _) = of(&scaled(0.1, 0.4), &data.labels).json(&["--activation-kind", "probability"]);
    assert!(value(&object, "concept_accuracy") < 0.6);
    assert!(warnings(&object).contains("the threshold 0.5 predicts"), "{object}");
    // Probabilities of rare concepts need not exceed one half.
    let rare: Vec<f64> = (0..ROWS * K).map(|at| f64::from(u8::from(at % 31 == 0))).collect();
    let low: Vec<f64> = rare.iter().enumerate().map(|(at, c)| 0.02 + 0.3 * c + (at % 7) as f64 / 1000.0).collect();
    let (object, said) = of(&low, &rare).json(&[]);
    assert_eq!((&object["activation_kind"], said.as_str()), (&json!("probability"), ""));
    assert!(warnings(&object).is_empty(), "{object}");
}

#[test]
fn class_numbers_are_hard_only_within_the_classes_of_their_concepts() {
    let data = data();
    let kind = |activations: &[f64], labels: &[f64]| of(activations, labels).json(&[]).0["activation_kind"].clone();
    assert_eq!(kind(&data.labels, &data.labels), "hard");
    let twos: Vec<f64> = data.labels.iter().map(|c| 2.0 * c).collect();
    assert_ne!(kind(&twos, &data.labels), "hard");
    let signed: Vec<f64> = data.labels.iter().map(|c| 2.0 * c - 1.0).collect();
    assert_eq!(kind(&signed, &data.labels), "logit");
}

#[test]
fn labels_of_minus_one_and_one_are_refused_with_advice_and_signed_labels_are_0_and_1() {
    let data = data();
    let signed: Vec<f64> = data.labels.iter().map(|c| 2.0 * c - 1.0).collect();
    let table = of(&data.probabilities(), &signed);
    let says = "concept_labels: concept 'c0' has -1 and 1 and no 0: if -1 means absent, recode it to 0 or pass \
                --signed-labels";
    table.refused(&[], &[says]);
    table.refused(&["--missing-labels"], &[says]);
    let (expected, _) = of(&data.probabilities(), &data.labels).json(&[]);
    assert_eq!(table.json(&["--signed-labels"]).0["scores"], expected["scores"]);
    // One column is enough, and 0 is no label of it.
    let one: Vec<f64> =
        signed.iter().zip(&data.labels).enumerate().map(|(at, (s, c))| if at % K == 1 { *s } else { *c }).collect();
    of(&data.probabilities(), &one).refused(&[], &["concept 'c1' has -1 and 1 and no 0"]);
    of(&data.probabilities(), &one).refused(&["--signed-labels"], &["expected -1 or 1 with --signed-labels"]);
    // 0 is unknown among signed labels, as -1 is among others.
    let at_random = |with: f64, labels: &[f64]| -> Vec<f64> {
        labels.iter().enumerate().map(|(at, c)| if at % 11 == 3 { with } else { *c }).collect()
    };
    let unknown = of(&data.probabilities(), &at_random(0.0, &signed));
    unknown.refused(&["--signed-labels"], &["has 0 for concept"]);
    let usual = of(&data.probabilities(), &at_random(-1.0, &data.labels));
    usual.refused(&[], &["for unknown labels pass --missing-labels"]);
    let (usual, _) = usual.json(&["--missing-labels"]);
    assert_eq!(unknown.json(&["--signed-labels", "--missing-labels"]).0["scores"], usual["scores"]);
    table.refused(&["--signed-labels", "--concept-kind", "continuous"], &["cannot be used with"]);
}

#[test]
fn known_labels_that_are_all_1_are_said() {
    let data = data();
    let only_present: Vec<f64> =
        data.labels.iter().enumerate().map(|(at, c)| if at % K == 2 && *c == 0.0 { f64::NAN } else { *c }).collect();
    let text = only_present.iter().map(|label| if label.is_nan() { String::new() } else { label.to_string() });
    let cells: Vec<String> = text.collect();
    let table = of(&data.probabilities(), &data.labels);
    let lines: Vec<String> = std::fs::read_to_string(&table.path).unwrap().lines().map(str::to_owned).collect();
    let mut changed = vec![lines[0].clone()];
    for (row, line) in lines[1..].iter().enumerate() {
        let mut fields: Vec<&str> = line.split(',').collect();
        (0..K).for_each(|i| fields[K + i] = &cells[row * K + i]);
        changed.push(fields.join(","));
    }
    std::fs::write(&table.path, changed.join("\n")).unwrap();
    let (object, _) = table.json(&["--missing-labels"]);
    assert!(warnings(&object).contains("concept_labels of c2: every known label is 1"), "{object}");
}

#[test]
fn a_sigmoid_as_task_logits_is_cut_at_one_half() {
    let data = data();
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let logits: Vec<f64> =
        data.task.iter().map(|y| 6.0 * y - 3.0 + (0..4).map(|_| random.random_range(-1.5..1.5)).sum::<f64>()).collect();
    let sigmoids: Vec<f64> = logits.iter().map(|&logit| sigmoid(logit)).collect();
    let scored = |logits: &[f64]| {
        table(&[("concept_labels", K, &data.labels), ("task_labels", 1, &data.task), ("task_logits", 1, logits)])
            .json(&[])
            .0
    };
    let (by_logit, by_sigmoid) = (scored(&logits), scored(&sigmoids));
    assert!(value(&by_logit, "task_accuracy") > 0.9);
    for id in ["task_accuracy", "task_f1", "task_auc"] {
        assert_eq!(value(&by_sigmoid, id), value(&by_logit, id), "{id}");
    }
    assert!(warnings(&by_sigmoid).contains("task_logits are all from 0 to 1: read as probabilities of class 1"));
    assert_eq!(warnings(&by_logit), "");
}

#[test]
fn ids_that_number_the_rows_of_batches_are_said() {
    let data = data();
    let with_ids = |ids: Vec<f64>| {
        let probabilities = data.probabilities();
        let arrays = [
            ("concept_activations", K, &probabilities[..]),
            ("concept_labels", K, &data.labels),
            ("sample_ids", 1, &ids),
        ];
        warnings(&table(&arrays).json(&[]).0)
    };
    assert_eq!(with_ids((0..ROWS).map(|row| row as f64).collect()), "");
    // Padding of a distributed sampler repeats a few rows.
    assert!(!with_ids((0..ROWS).map(|row| (row % (ROWS - 3)) as f64).collect()).contains("sample_ids"));
    let said = with_ids((0..ROWS).map(|row| (row % 64) as f64).collect());
    assert!(said.contains("sample_ids: 336 of 400 rows have the id of another row"), "{said}");
}

#[test]
fn labels_in_another_order_are_named() {
    let data = data();
    let order = [2, 0, 1];
    let moved: Vec<f64> = (0..ROWS).flat_map(|row| order.map(|i| data.labels[row * K + i])).collect();
    let (object, _) = of(&data.probabilities(), &moved).json(&[]);
    let said = warnings(&object);
    assert!(said.contains("concept_labels are in another order than concept_activations: the labels of c0, c1, c2 are predicted by the activations of c2, c0, c1 (AUC 0."), "{said}");
    assert!(!warnings(&of(&data.probabilities(), &data.labels).json(&[]).0).contains("another order"));
}

/// Both activations hold the task, each a concept more than the other: that is leakage, in whatever order the labels are.
#[test]
fn activations_of_the_task_are_no_exchange_of_labels() {
    let data = data();
    let mut random = ChaCha8Rng::seed_from_u64(35);
    let mut task = |row: usize| {
        let labels = &data.labels[row * K..];
        2.0 * labels[0] + 0.5 * labels[1] + random.random_range(-0.3..0.3) - 1.35
    };
    let activations: Vec<f64> = (0..ROWS)
        .flat_map(|row| {
            let beside = data.labels[row * K + 1] * 1.2 - 0.6;
            [beside + 0.2 * task(row).signum(), task(row), data.logits[row * K + 2]]
        })
        .map(sigmoid)
        .collect();
    let (object, _) = of(&activations, &data.labels).json(&[]);
    assert!(!warnings(&object).contains("another order"), "{}", warnings(&object));
}
