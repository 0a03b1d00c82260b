//! `conceptwatch score` as users run it: the real program on real files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use half::f16;
use leakage::score::catalogue::{CATALOGUE, Input, Score};
use leakage::tensor::TensorName;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::common::{Done, answers_in, npy, program};

const ROWS: usize = 120;
const K: usize = 3;

/// One array of an archive: numpy's type name, shape, and values row by row.
struct Array {
    name: &'static str,
    dtype: &'static str,
    shape: Vec<usize>,
    fortran: bool,
    data: Vec<u8>,
}

impl Array {
    fn new(name: &'static str, dtype: &'static str, shape: &[usize], values: &[f64]) -> Self {
        let encode = |&value: &f64| match dtype {
            "<f2" => f16::from_f64(value).to_le_bytes().to_vec(),
            "<f4" => (value as f32).to_le_bytes().to_vec(),
            "<f8" => value.to_le_bytes().to_vec(),
            "<i8" => (value as i64).to_le_bytes().to_vec(),
            "<i4" => (value as i32).to_le_bytes().to_vec(),
            "|i1" | "|u1" | "|b1" => vec![value as u8],
            other => panic!("{other}"),
        };
        assert_eq!(values.len(), shape.iter().product::<usize>(), "{name}");
        Self { name, dtype, shape: shape.to_vec(), fortran: false, data: values.iter().flat_map(encode).collect() }
    }

    fn text(name: &'static str, dtype: &'static str, text: &str) -> Self {
        Self { name, dtype, shape: vec![], fortran: false, data: text.as_bytes().to_vec() }
    }

    /// The same [n, k] array in column-major order.
    fn in_columns(mut self) -> Self {
        let (rows, columns) = (self.shape[0], self.shape[1]);
        let item = self.data.len() / (rows * columns);
        let element = |row: usize, column: usize| &self.data[(row * columns + column) * item..][..item];
        let order = (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column)));
        self.data = order.flat_map(|(row, column)| element(row, column).to_vec()).collect();
        self.fortran = true;
        self
    }
}

/// An archive as `np.savez_compressed` writes it.
fn archive(arrays: &[Array]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outputs.npz");
    let entries = arrays.iter().map(|array| {
        let dims: String = array.shape.iter().map(|dim| format!("{dim}, ")).collect();
        let bytes = npy::npy(&format!("'{}'", array.dtype), array.fortran, &format!("({dims})"), &array.data);
        (format!("{}.npy", array.name), bytes)
    });
    std::fs::write(&path, npy::compressed(&entries.collect::<Vec<_>>())).unwrap();
    (folder, path)
}

/// Labels, logits in steps of 1/64 (exact in every float type, with ties) that leak the task, and the task.
fn values() -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let (mut logits, mut labels, mut task) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROWS {
        let concepts: Vec<f64> = (0..K).map(|_| f64::from(random.random_range(0..2_u8))).collect();
        let y = f64::from(u8::from(concepts.iter().sum::<f64>() >= 2.0));
        let noise = |random: &mut ChaCha8Rng| f64::from(random.random_range(-64..=64_i32)) / 64.0;
        logits.extend(concepts.iter().map(|c| 2.0 * c - 1.0 + y - 0.5 + noise(&mut random)));
        labels.extend(concepts);
        task.push(y);
    }
    (logits, labels, task)
}

fn with_types(activations: &'static str, labels: &'static str) -> Vec<Array> {
    let (logits, concepts, task) = values();
    vec![
        Array::new("concept_activations", activations, &[ROWS, K], &logits),
        Array::new("concept_labels", labels, &[ROWS, K], &concepts),
        Array::new("task_labels", labels, &[ROWS], &task),
        Array::new("task_predictions", "<i8", &[ROWS], &task),
    ]
}

/// The usual three arrays.
fn usual(logits: &[f64], labels: &[f64], task: &[f64]) -> Vec<Array> {
    vec![
        Array::new("concept_activations", "<f8", &[ROWS, K], logits),
        Array::new("concept_labels", "<i8", &[ROWS, K], labels),
        Array::new("task_labels", "<i8", &[ROWS], task),
    ]
}

fn score_files(files: &[&Path], arguments: &[&str]) -> Done {
    Done::of(program().arg("score").args(files).args(arguments))
}

fn score(arrays: &[Array], arguments: &[&str]) -> Done {
    let (_folder, path) = archive(arrays);
    score_files(&[&path], arguments)
}

fn json(arrays: &[Array], arguments: &[&str]) -> Value {
    let done = score(arrays, &[&["--json"], arguments].concat());
    assert_eq!(done.err, "");
    done.json()
}

/// It is refused, and says so.
fn refused(arrays: &[Array], arguments: &[&str], says: &str) {
    let error = score(arrays, arguments).refused(2);
    assert!(error.contains(says), "{error}");
}

/// The object without `seconds`.
fn without_seconds(mut object: Value) -> Value {
    assert!(object["seconds"].as_f64().unwrap() > 0.0);
    object.as_object_mut().unwrap().remove("seconds");
    object
}

/// The scores whose arrays are in these archives.
fn with_inputs() -> impl Iterator<Item = &'static Score> {
    use TensorName::{ConceptActivations, ConceptLabels, TaskLabels, TaskPredictions};
    let given = [ConceptActivations, ConceptLabels, TaskLabels, TaskPredictions];
    let has = move |input: &Input| match input {
        Input::Tensor(name) => given.contains(name),
        Input::EitherTensor(a, b) => given.contains(a) || given.contains(b),
        Input::ReferenceTaskAccuracy => true, // heads are trained for it
        _ => false,
    };
    CATALOGUE.iter().filter(move |score| score.inputs.iter().all(has))
}

#[test]
fn json_is_the_object_of_the_contract() {
    let object = json(&with_types("<f4", "<i8"), &[]);
    let keys: Vec<&String> = object.as_object().unwrap().keys().collect();
    let kinds = ["activation_kind", "concept_kind", "guessed", "task_kind"];
    let others = keys.iter().filter(|key| !kinds.contains(&key.as_str()));
    let expected = ["concepts", "estimator", "rows", "scores", "seconds", "tie_fraction", "verdict", "warnings"];
    assert_eq!(others.collect::<Vec<_>>(), expected.each_ref());
    assert!(kinds.iter().all(|kind| object.get(kind).is_some()), "{keys:?}");
    assert_eq!((object["rows"].as_u64(), object["concepts"].as_u64()), (Some(ROWS as u64), Some(K as u64)));
    assert_eq!(object["estimator"], "tie_aware");
    let ties = object["tie_fraction"].as_f64().unwrap();
    assert!(ties > 0.2 && ties < 0.9, "{ties}");
    assert_eq!(object["warnings"], serde_json::json!([]));
    let scores = object["scores"].as_object().unwrap();
    let ids: BTreeSet<&str> = scores.keys().map(String::as_str).collect();
    let expected: BTreeSet<&str> = with_inputs().map(|score| score.id).collect();
    assert_eq!(ids, expected, "exactly the scores whose arrays are present");
    assert!(["ctl", "icl", "ois", "clarity", "task_accuracy"].iter().all(|id| ids.contains(id)));
    let parts = |id: &str| scores[id].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(parts("task_accuracy"), ["standard_error", "value"]);
    let tested = ["matrix", "matrix_q", "p_value", "per_concept", "per_concept_q", "standard_error", "value"];
    assert_eq!(parts("icl_conditional"), tested);
    assert!(scores["ctl"]["value"].as_f64().unwrap() > 0.02);
    assert_eq!(scores["task_accuracy"]["value"], 1.0);
}

#[test]
fn a_requested_score_without_its_arrays_is_undefined_and_named() {
    let object = json(&with_types("<f4", "<i8"), &["--scores", "alignment_leakage,ctl", "--scores", "task_accuracy"]);
    let scores = object["scores"].as_object().unwrap();
    assert_eq!(scores.keys().collect::<Vec<_>>(), ["alignment_leakage", "ctl", "task_accuracy"]);
    assert_eq!(
        scores["alignment_leakage"],
        serde_json::json!({"undefined": "needs positive_embeddings and negative_embeddings, which were not given"})
    );
    // An undefined score is not a failure.
    let text = score(&with_types("<f4", "<i8"), &["--scores", "embedding_ct"]).ok();
    assert!(
        text.contains("embedding_ct               undefined: needs concept_embeddings, which was not given"),
        "{text}"
    );
}

#[test]
fn the_table_has_a_line_for_each_score() {
    let text = score(&with_types("<f4", "<i8"), &["--estimator", "published"]).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("120 rows, 3 concepts, published estimator, "), "{text}");
    let verdict = lines.iter().position(|line| line.starts_with("verdict: ")).unwrap();
    assert_eq!(verdict, 2 + with_inputs().count() + 1, "{text}");
    assert!(lines[0].contains(" s, ± 95 %"), "{text}");
    let json = json(&with_types("<f4", "<i8"), &["--estimator", "published"]);
    let error = json["scores"]["ctl"]["standard_error"].as_f64().unwrap();
    assert!(lines[2].starts_with("ctl ") && lines[2].contains(&format!(" ± {:.4}", 1.96 * error)), "{text}");
}

#[test]
fn the_estimator_its_neighbours_repeats_and_seed_are_chosen() {
    let icl = |arguments: &[&str]| {
        let object = json(&with_types("<f4", "<i8"), &[&["--scores", "icl_excess"], arguments].concat());
        (object["estimator"].clone(), object["scores"]["icl_excess"]["value"].as_f64().unwrap())
    };
    let published = icl(&["--estimator", "published"]);
    assert_eq!(published.0, "published");
    assert_eq!(published, icl(&["--estimator", "published", "--seed", "0", "--repeats", "5", "--neighbours", "3"]));
    for other in [["--seed", "1"], ["--repeats", "2"], ["--neighbours", "5"]] {
        assert_ne!(published.1, icl(&[&["--estimator", "published"][..], &other].concat()).1, "{other:?}");
    }
    let exact = icl(&[]);
    assert_eq!(exact.1, icl(&["--seed", "1"]).1, "nothing is drawn, not even where values are tied");
    assert!((exact.1 - published.1).abs() < 0.02, "{} {}", exact.1, published.1);
}

#[test]
fn element_types_and_orders_carry_the_same_values() {
    let expected = without_seconds(json(&with_types("<f8", "<i8"), &[]));
    for (activations, labels) in [("<f4", "<i8"), ("<f8", "|b1"), ("<f4", "|u1"), ("<f8", "<i4"), ("<f4", "|i1")] {
        let got = without_seconds(json(&with_types(activations, labels), &[]));
        assert_eq!(got, expected, "{activations} {labels}");
    }
    let mut arrays = with_types("<f4", "<i8");
    let labels = arrays.remove(1).in_columns();
    let activations = arrays.remove(0).in_columns();
    arrays.extend([labels, activations]);
    assert_eq!(without_seconds(json(&arrays, &[])), expected, "column by column");
    let mut half = without_seconds(json(&with_types("<f2", "<i8"), &[]));
    let warnings = half["warnings"].take();
    assert!(warnings[0].as_str().unwrap().starts_with("concept_activations came in half precision"), "{warnings}");
    assert_eq!(half["scores"], expected["scores"], "the values are exact in float16");
}

#[test]
fn an_archive_may_state_the_activation_kind() {
    let accuracy = |kind: Option<(&'static str, &'static str)>| {
        let mut arrays = with_types("<f8", "<i8");
        arrays.extend(kind.map(|(kind, dtype)| Array::text("activation_kind", dtype, kind)));
        json(&arrays, &["--scores", "concept_accuracy"])["scores"]["concept_accuracy"]["value"].clone()
    };
    assert_eq!(accuracy(None), accuracy(Some(("logit", "|S5"))));
    assert_ne!(accuracy(None), accuracy(Some(("probability", "|S11"))), "0.5 is another threshold than 0");
}

#[test]
fn unknown_labels_and_concepts_left_out_are_told() {
    let (logits, concepts, task) = values();
    let labels = |dtype, unknown: f64| {
        let labels: Vec<f64> = concepts
            .iter()
            .enumerate()
            .map(|(at, &c)| match (at / K, at % K) {
                (_, 1) => 0.0,
                (row, 2) if row % 4 == 0 => unknown,
                _ => c,
            })
            .collect();
        vec![
            Array::new("concept_activations", "<f4", &[ROWS, K], &logits),
            Array::new("concept_labels", dtype, &[ROWS, K], &labels),
            Array::new("task_labels", "<i8", &[ROWS, 1], &task),
        ]
    };
    let ids = ["--missing-labels", "--scores", "ctl,concept_accuracy"];
    let object = json(&labels("<i8", -1.0), &ids);
    assert_eq!(without_seconds(json(&labels("<f4", f64::NAN), &ids)), without_seconds(object.clone()));
    assert_eq!(object["concept_rows"], serde_json::json!([ROWS, ROWS, ROWS - ROWS.div_ceil(4)]));
    let left_out =
        serde_json::json!({"concepts": [1], "of": 3, "why": "concept 'c1': labels: there is one class only"});
    assert_eq!(object["scores"]["ctl"]["left_out"], left_out);
    let text = score(&labels("<i8", -1.0), &ids).ok();
    assert!(text.lines().any(|line| line.starts_with("ctl ") && line.ends_with("  over 2 of 3 concepts")), "{text}");
    assert!(text.contains(&format!("known in {} to {ROWS} rows", ROWS - ROWS.div_ceil(4))), "{text}");
    assert!(text.contains("left out of ctl: c1 (concept 'c1': labels: there is one class only)"), "{text}");
}

/// The JSON of the program for these files and options, and what it says beside it.
fn scored(files: &[&Path], options: &[&str]) -> (Value, String) {
    let done = score_files(files, &[&["--json", "--no-tests"], options].concat());
    let said = done.err.clone();
    (done.json(), said)
}

#[test]
fn every_format_gives_the_same_scores() {
    let (logits, labels, task) = values();
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let mut arrays = usual(&logits, &labels, &task);
    arrays.push(Array::new("epochs", "<f8", &[1], &[7.0]));
    let (_kept, npz) = archive(&arrays);
    let (expected, said) = scored(&[&npz], &[]);
    assert_eq!(expected["passed_over"], serde_json::json!(["epochs"]));
    assert!(said.contains("ignored") && said.contains("epochs") && said.contains("--map"), "{said}");

    let bytes: Vec<u8> = arrays.iter().flat_map(|array| array.data.clone()).collect();
    let mut header = serde_json::Map::new();
    let mut at = 0;
    std::fs::create_dir(place("arrays")).unwrap();
    for array in &arrays {
        let dims: String = array.shape.iter().map(|dim| format!("{dim}, ")).collect();
        let npy = npy::npy(&format!("'{}'", array.dtype), false, &format!("({dims})"), &array.data);
        std::fs::write(place("arrays").join(format!("{}.npy", array.name)), npy).unwrap();
        let dtype = if array.dtype == "<f8" { "F64" } else { "I64" };
        let offsets = [at, at + array.data.len()];
        header.insert(
            array.name.into(),
            serde_json::json!({"dtype": dtype, "shape": array.shape, "data_offsets": offsets}),
        );
        at += array.data.len();
    }
    let header = serde_json::to_vec(&header).unwrap();
    std::fs::write(place("t.safetensors"), [&(header.len() as u64).to_le_bytes(), header.as_slice(), &bytes].concat())
        .unwrap();
    let mut table = "row,p.wing,p.beak,p.tail,has_wing,has_beak,has_tail,y\n".to_owned();
    for row in 0..ROWS {
        let cells = |values: &[f64]| values[row * K..][..K].iter().map(|value| format!("{value},")).collect::<String>();
        table += &format!("{row},{}{}{}\n", cells(&logits), cells(&labels), task[row]);
    }
    std::fs::write(place("t.csv"), table).unwrap();
    let map = ["--map", "concept_activations=p", "--map", "concept_labels=has_*", "--map", "task_labels=y"];

    let single: Vec<PathBuf> = ["concept_activations", "concept_labels", "task_labels"]
        .map(|name| place("arrays").join(format!("{name}.npy")))
        .to_vec();
    let single: Vec<&Path> = single.iter().map(PathBuf::as_path).collect();
    let formats: [(&[&Path], &[&str], &[&str]); 4] = [
        (&[&place("arrays")], &[], &["epochs"]),
        (&single, &[], &[]),
        (&[&place("t.safetensors")], &[], &["epochs"]),
        (&[&place("t.csv")], &map, &["row"]),
    ];
    for (files, options, over) in formats {
        let (found, _) = scored(files, options);
        assert_eq!(found["scores"], expected["scores"], "{files:?}");
        let over = if over.is_empty() { Value::Null } else { serde_json::json!(over) };
        assert_eq!(found["passed_over"], over, "{files:?}");
    }
}

#[test]
fn tables_may_name_classes_mark_missing_cells_and_use_other_separators() {
    let (logits, labels, task) = values();
    let directory = tempfile::tempdir().unwrap();
    let table = |separator: &str, missing: &str, classes: [&str; 2]| {
        // With a column without a name, as pandas writes its index.
        let header = ["", "concept_activations.a,x", "concept_labels.a,x", "task_predictions", "task_labels"];
        let quoted = header.map(|title| format!("\"{title}\""));
        let mut table = quoted.join(separator) + "\n";
        for row in 0..ROWS {
            let label = if row % 7 == 0 { missing.to_owned() } else { labels[row * K].to_string() };
            let class = classes[usize::from(task[row] > 0.0)];
            let cells =
                [row.to_string(), logits[row * K].to_string(), label, classes[row % 2].to_owned(), class.to_owned()];
            table += &(cells.join(separator) + "\n");
        }
        let path = directory.path().join("t.csv");
        std::fs::write(&path, table).unwrap();
        let (found, said) = scored(&[&path], &["--missing-labels"]);
        assert!(said.contains("ignored, as no score knows the name: '' (see --map)"), "{said}");
        found["scores"].clone()
    };
    let expected = table(",", "", ["0", "1"]);
    let few = ["--missing-labels", "--no-tests", "--scores", "ctl"];
    let printed = score_files(&[&directory.path().join("t.csv")], &few).ok();
    assert!(printed.starts_with("120 rows, 1 concept, "), "{printed}");
    // In the order of their names, whichever comes first.
    for (separator, missing, classes) in [
        (";", "NA", ["auk", "wren"]),
        ("\t", "<NA>", ["Auk", "auk"]),
        (",", "null", ["a b", "é"]),
        (";", "None", ["0", "1"]),
    ] {
        assert_eq!(table(separator, missing, classes), expected, "{separator:?} {missing} {classes:?}");
    }
}

#[test]
fn columns_of_tables_may_be_in_another_order_than_the_labels() {
    let (logits, labels, task) = values();
    let folder = tempfile::tempdir().unwrap();
    let scores_of = |file: &str, concepts: [usize; K], tasks: [usize; 2]| {
        let titles = |array: &str| concepts.map(|at| format!("{array}.{}", ["wing", "beak", "tail"][at]));
        let mut table = [titles("concept_activations"), titles("active_concepts")].concat();
        table.extend(["wing", "beak", "tail"].map(|concept| format!("concept_labels.{concept}")));
        table.extend(["vote", "first"].map(|task| format!("task_labels.{task}")));
        table.extend(tasks.map(|at| format!("task_predictions.{}", ["vote", "first"][at])));
        let mut table = table.join("\t") + "\n";
        for row in 0..ROWS {
            let (logits, labels) = (&logits[row * K..][..K], &labels[row * K..][..K]);
            let (of_tasks, predicted) = ([task[row], labels[0]], [f64::from(row % 5 > 0) * task[row], labels[0]]);
            let active = concepts.map(|at| f64::from(logits[at] > 0.2 * at as f64));
            let cells =
                [&concepts.map(|at| logits[at])[..], &active, labels, &of_tasks, &tasks.map(|at| predicted[at])];
            table += &(cells.concat().iter().map(f64::to_string).collect::<Vec<_>>().join("\t") + "\n");
        }
        std::fs::write(folder.path().join(file), table).unwrap();
        scored(&[&folder.path().join(file)], &[]).0["scores"].clone()
    };
    let expected = scores_of("in_order.tsv", [0, 1, 2], [0, 1]);
    assert!(expected["precision"]["value"].is_number() && expected["task_accuracy"]["value"].is_number(), "{expected}");
    assert_eq!(scores_of("in_another.TSV", [2, 0, 1], [1, 0]), expected);
}

#[test]
fn columns_of_logits_are_those_of_their_classes() {
    let (logits, labels, task) = values();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.csv");
    // Twelve classes; the logits are right in three of four rows.
    let class = |row: usize| (row % 6) * 2 + usize::from(task[row] > 0.0);
    let accuracy = |order: [usize; 12], column: &dyn Fn(usize) -> String, name: &dyn Fn(usize) -> String| {
        let columns = order.map(|class| format!("task_logits.{}", column(class)));
        let mut table = format!("concept_activations.a,concept_labels.a,task_labels,{}\n", columns.join(","));
        for row in 0..ROWS {
            let predicted = if row % 4 == 0 { (class(row) + 1) % 12 } else { class(row) };
            let cells = order.map(|class| if class == predicted { "3.5" } else { "-3.5" });
            table += &format!("{},{},{},{}\n", logits[row * K], labels[row * K], name(class(row)), cells.join(","));
        }
        std::fs::write(&path, table).unwrap();
        let (found, said) = scored(&[&path], &["--scores", "task_accuracy"]);
        (found["scores"]["task_accuracy"]["value"].as_f64().unwrap(), said)
    };
    let sorted_as_text = [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9];
    let number = |class: usize| class.to_string();
    let name = |class: usize| format!("bird {}", 20 - class);
    let in_order = std::array::from_fn(|class| class);
    assert_eq!(accuracy(sorted_as_text, &number, &number), (0.75, String::new()));
    assert_eq!(accuracy(sorted_as_text, &name, &name), (0.75, String::new()));
    let (_, said) = accuracy(in_order, &number, &name);
    assert!(
        said.starts_with("task_labels: classes are numbered in the order of their names, bird 10 0, bird 11 1"),
        "{said}"
    );
}

#[test]
fn two_values_for_each_concept_that_sum_to_1_are_no_samples() {
    let (logits, labels, _) = values();
    let both = logits.iter().map(|logit| 1.0 / (1.0 + logit.exp())).flat_map(|absent| [absent, 1.0 - absent]);
    let arrays = [
        Array::new("concept_activations", "<f4", &[ROWS, K, 2], &both.collect::<Vec<_>>()),
        Array::new("concept_labels", "<i8", &[ROWS, K], &labels),
    ];
    refused(&arrays, &[], "concept_activations: has two values for each concept that sum to 1");
}

#[test]
fn a_mapped_array_takes_the_place_of_the_one_with_its_name() {
    let (logits, labels, task) = values();
    let turned: Vec<f64> = labels.iter().map(|label| 1.0 - label).collect();
    let mut arrays = usual(&logits, &turned, &task);
    arrays.push(Array::new("c", "<i8", &[ROWS, K], &labels));
    let (_kept, npz) = archive(&arrays);
    let (_other, plain) = archive(&usual(&logits, &labels, &task));
    let (found, _) = scored(&[&npz], &["--map", "concept_labels=c"]);
    assert_eq!(found["scores"], scored(&[&plain], &[]).0["scores"]);
    assert_eq!(found["passed_over"], serde_json::json!(["concept_labels"]));
}

#[test]
fn the_report_is_one_page_that_fetches_nothing_and_shows_names_as_text() {
    let (logits, labels, task) = values();
    let hostile = "<img src=x onerror=alert(1)>";
    let names: String = [hostile, "beak", "tail"].iter().map(|name| format!("{name:\0<28}")).collect();
    let mut arrays = usual(&logits, &labels, &task);
    arrays.push(Array { shape: vec![K], ..Array::text("concept_names", "|S28", &names) });
    let (folder, npz) = archive(&arrays);
    let page = folder.path().join("report.html");
    std::fs::write(&page, "an older one").unwrap();
    let (scores, _) = scored(&[&npz], &["--html", page.to_str().unwrap()]);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    assert!(html.contains("default-src 'none'") && html.contains("\\u003cimg src=x onerror=alert(1)>"));
    for fetching in ["<img", "src=\"", "href=\"assets/"] {
        assert!(!html.contains(fetching), "{fetching}");
    }
    assert!(html.split("url(").skip(1).all(|of| of.starts_with('#')), "a part of the page itself");
    let value = scores["scores"]["ctl_conditional"]["value"].as_f64().unwrap();
    assert!(html.contains(&format!("\n{:26} {value:>8.4}", "ctl_conditional")), "the value in the text");
    let answers = answers_in(&html);
    assert_eq!(answers["point"]["scores"]["ctl_conditional"]["value"], value);
    assert_eq!(answers["overview"]["runs"][0]["verdict"]["state"], scores["verdict"]["state"]);
    assert_eq!(answers["runs"]["runs"][0]["concepts"][0], hostile);
    assert_eq!(answers["matrix icl_conditional"]["matrix"].as_array().map(Vec::len), Some(K));
    for step in ["/overview/runs/0/step", "/point/step"] {
        assert!(answers.pointer(step).unwrap().is_null(), "a file has no step");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "the archive and the report alone");
    // Bad input leaves the older page as it is.
    std::fs::write(&npz, "no archive").unwrap();
    score_files(&[&npz], &["--html", page.to_str().unwrap()]).refused(2);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), html);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn the_rows_that_leak_most_are_listed_with_the_shares_of_the_classes() {
    let arrays = with_types("<f4", "<i8");
    let found = json(&arrays, &["--no-tests", "--rows", "ctl_conditional"]);
    let (leaking, whole) = (&found["leaking_rows"], &found["scores"]["ctl_conditional"]["value"]);
    assert_eq!((&leaking["score"], &leaking["concept"]), (&"ctl_conditional".into(), &Value::Null));
    assert!((leaking["value"].as_f64().unwrap() - whole.as_f64().unwrap()).abs() < 1e-12);
    assert_eq!(leaking["rows"].as_array().map(Vec::len), Some(50));
    let shares = leaking["by_class"].as_array().unwrap().iter().map(|class| class["share"].as_f64().unwrap());
    assert!((shares.sum::<f64>() - whole.as_f64().unwrap()).abs() < 1e-12);
    let of_concept = json(&arrays, &["--no-tests", "--rows", "ctl_conditional:c1"]);
    let part = &found["scores"]["ctl_conditional"]["per_concept"][1];
    assert!((of_concept["leaking_rows"]["value"].as_f64().unwrap() - part.as_f64().unwrap()).abs() < 1e-12);
    let text = score(&arrays, &["--no-tests", "--rows", "ctl_conditional"]).ok();
    assert!(
        text.contains("\nrows that contribute most to ctl_conditional, ") && text.contains("class of the task"),
        "{text}"
    );
    for (wanted, expected) in [
        ("icl", "--rows: got 'icl', expected ctl_conditional, or ctl_conditional:CONCEPT"),
        ("ctl_conditional:nobody", "--rows: got 'nobody', expected the name of a concept"),
    ] {
        refused(&arrays, &["--rows", wanted], expected);
    }
}

#[test]
fn several_tasks_of_a_file_are_scored_one_by_one_and_named_by_their_columns() {
    let (logits, labels, task) = values();
    let first: Vec<f64> = labels.chunks(K).map(|row| row[0]).collect();
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("outputs.csv");
    let concepts = ["wing", "beak", "tail"];
    let columns = |array: &str| concepts.map(|concept| format!("{array}.{concept}")).join(",");
    let (of_activations, of_labels) = (columns("concept_activations"), columns("concept_labels"));
    let mut text = format!("{of_activations},{of_labels},task_labels.vote,task_labels.first\n");
    for row in 0..ROWS {
        let cells =
            [&logits[row * K..(row + 1) * K], &labels[row * K..(row + 1) * K], &[task[row], first[row]]].concat();
        text += &(cells.iter().map(f64::to_string).collect::<Vec<_>>().join(",") + "\n");
    }
    std::fs::write(&table, &text).unwrap();
    let ids = ["--scores", "ctl_conditional,icl_conditional,task_excess"];
    let (whole, _) = scored(&[&table], &ids);
    assert_eq!(whole["tasks"], serde_json::json!(["vote", "first"]));
    for (at, own) in [&task, &first].into_iter().enumerate() {
        let (_kept, npz) = archive(&usual(&logits, &labels, own));
        let (single, _) = scored(&[&npz], &ids);
        assert_eq!(whole["scores"]["ctl_conditional"]["per_task"][at], single["scores"]["ctl_conditional"]);
        assert_eq!(whole["scores"]["icl_conditional"], single["scores"]["icl_conditional"]);
    }
    let shown = score_files(&[&table], &ids).ok();
    assert!(shown.contains("\n  vote ") && shown.contains("\n  first "), "{shown}");
    // Rows are those of one task, by default of the one that leaks most.
    let of_task = |task: usize| &whole["scores"]["ctl_conditional"]["per_task"][task];
    let most = if of_task(0)["value"].as_f64() >= of_task(1)["value"].as_f64() { 0 } else { 1 };
    let stated = |name| vec!["--rows-task", name];
    for (task, options) in [(most, Vec::new()), (0, stated("vote")), (1, stated("first"))] {
        let (found, _) = scored(&[&table], &[&ids[..], &["--rows", "ctl_conditional:beak"], &options].concat());
        let leaking = &found["leaking_rows"];
        assert_eq!((&leaking["task"], &leaking["concept"]), (&["vote", "first"][task].into(), &"beak".into()));
        let part = of_task(task)["per_concept"][1].as_f64().unwrap();
        assert!((leaking["value"].as_f64().unwrap() - part).abs() < 1e-12, "{leaking}");
    }
    let error = score_files(&[&table], &["--rows", "ctl_conditional", "--rows-task", "last"]).refused(2);
    assert!(error.contains("--rows-task: got 'last', expected one of vote, first"), "{error}");
    // One-hot labels are no tasks unless these have names, one for each.
    let one_hot: Vec<f64> = task.iter().flat_map(|y| [1.0 - y, *y]).collect();
    let arrays = |names| {
        let mut arrays = usual(&logits, &labels, &task);
        arrays[2] = Array::new("task_labels", "<i8", &[ROWS, 2], &one_hot);
        arrays.extend(names);
        arrays
    };
    refused(&arrays(None), &[], "of one-hot labels send the class numbers, [n]; of 2 tasks give task_names");
    let (_kept, npz) = archive(&arrays(Some(Array { shape: vec![2], ..Array::text("task_names", "|S4", "voteleft") })));
    assert_eq!(scored(&[&npz], &ids).0["tasks"], serde_json::json!(["vote", "left"]));
    let one = arrays(Some(Array::text("task_names", "|S4", "vote")));
    refused(&one, &[], "task_names: got 1 values, expected 2, one for each column of task_labels");
}
