//! Declarations and batches: invalid ones are refused with the name of the field, valid ones pass.

use bytes::Bytes;
use leakage::batch::{Batch, NonFinite};
use leakage::field_error::FieldError;
use leakage::name::check_name;
use leakage::run::{ActivationColumns, ActivationKind, Concept, LabelKind, Run, RunConstants, RunFields, Task};
use leakage::tensor::{Content, DataType, MAX_TEXT, Tensor, TensorName};

fn fields(cardinalities: &[u32]) -> RunFields {
    let concepts = cardinalities.iter().enumerate();
    let concepts = concepts
        .map(|(i, &cardinality)| Concept { name: format!("c{i}"), cardinality, ..Concept::default() })
        .collect();
    RunFields { name: "run".into(), concepts, ..Default::default() }
}

fn run(cardinalities: &[u32]) -> Run {
    Run::try_from(fields(cardinalities)).unwrap()
}

fn in_two_columns(cardinalities: &[u32]) -> Run {
    Run::try_from(RunFields { activation_columns: ActivationColumns::TwoPerConcept, ..fields(cardinalities) }).unwrap()
}

fn with_latents(cardinalities: &[u32], latents: u32) -> Run {
    Run::try_from(RunFields { latents: Some(latents), ..fields(cardinalities) }).unwrap()
}

fn floats(name: TensorName, shape: &[u64], values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::numbers(name, DataType::Float32, shape, bytes.into()).unwrap()
}

fn zeros(name: TensorName, dtype: DataType, shape: &[u64]) -> Tensor {
    if dtype == DataType::String {
        return Tensor::texts(name, shape, vec![String::new(); shape[0] as usize]).unwrap();
    }
    let bytes = shape.iter().product::<u64>() as usize * dtype.size();
    Tensor::numbers(name, dtype, shape, vec![0; bytes].into()).unwrap()
}

fn integers(name: TensorName, shape: &[u64], values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::numbers(name, DataType::Int64, shape, bytes.into()).unwrap()
}

fn assert_fault<T: std::fmt::Debug>(result: Result<T, FieldError>, field: &str, says: &str) {
    let fault = result.expect_err(&format!("{field}: expected a fault that says '{says}'"));
    assert_eq!(fault.field, field, "{fault}");
    assert!(fault.message.contains(says), "'{fault}' does not say '{says}'");
}

/// Prints how many invalid inputs a test has, which `make torture` adds up.
fn counted(cases: usize) {
    println!("{cases} bad inputs");
}

use TensorName::*;

// ---------------------------------------------------------------- kinds of concepts

fn concept(name: &str, cardinality: u32, label_kind: Option<LabelKind>) -> Concept {
    Concept { name: name.into(), cardinality, label_kind, ..Concept::default() }
}

/// A binary concept, one of three classes, and a number.
fn mixed() -> RunFields {
    let (class, number) = (Some(LabelKind::Class), Some(LabelKind::Continuous));
    let concepts = vec![concept("wing", 0, class), concept("colour", 3, None), concept("size", 0, number)];
    RunFields { name: "run".into(), concepts, ..Default::default() }
}

#[test]
fn each_concept_has_its_own_kinds_or_those_of_the_run() {
    let mut fields = mixed();
    fields.concepts[0].activation_kind = Some(ActivationKind::Hard);
    let run = Run::try_from(fields.clone()).unwrap();
    let kinds: Vec<_> = (0..3).map(|i| (run.activation_kind(i), run.label_kind(i))).collect();
    let (class, number) = (LabelKind::Class, LabelKind::Continuous);
    use ActivationKind::{Hard, Probability};
    assert_eq!(kinds, [(Hard, class), (Probability, class), (Probability, number)]);
    // Kinds that are spelt out and are the run's change nothing.
    fields.concepts[1].label_kind = Some(class);
    let spelt = Run::try_from(fields.clone()).unwrap();
    assert!(run.is_continued_by(&spelt) && run.is_comparable(&spelt));
    fields.concepts[0].activation_kind = None;
    let other = Run::try_from(fields.clone()).unwrap();
    assert!(!run.is_continued_by(&other) && run.is_comparable(&other), "scores are of the same concepts");
    fields.concepts[2].label_kind = None;
    assert!(!run.is_comparable(&Run::try_from(fields).unwrap()));
    let in_two = RunFields { activation_columns: ActivationColumns::TwoPerConcept, ..mixed() };
    assert_eq!(Run::try_from(in_two).unwrap().activation_blocks(6).unwrap(), [0..2, 2..5, 5..6], "a number has one");
}

#[test]
fn a_mixed_batch_is_checked_concept_by_concept() {
    let run = Run::try_from(mixed()).unwrap();
    let missing = Run::try_from(RunFields { missing_concept_labels: true, ..mixed() }).unwrap();
    let labels = |wing: f32, colour: f32, size: f32| floats(ConceptLabels, &[1, 3], &[wing, colour, size]);
    let check = |run: &Run, tensor: Tensor| Batch::new(vec![tensor], run, NonFinite::Reject);
    assert!(check(&run, labels(1.0, 2.0, -7.5)).is_ok());
    let field = "tensors.concept_labels";
    for (wrong, says) in [
        (labels(0.5, 0.0, 0.0), "row 0 has 0.5 for concept 'wing', expected class numbers"),
        (labels(0.0, 1.5, 0.0), "row 0 has 1.5 for concept 'colour', expected class numbers"),
        (labels(0.0, 3.0, 0.0), "row 0 has 3 for concept 'colour', expected 0 to 2"),
        (labels(-1.0, 0.0, 0.0), "row 0 has -1 for concept 'wing', expected 0 to 1"),
        (labels(0.0, 0.0, f32::NAN), "row 0 has a NaN or an infinity, expected finite values"),
    ] {
        assert_fault(check(&run, wrong), field, says);
    }
    assert!(check(&missing, labels(f32::NAN, -1.0, f32::NAN)).is_ok());
    assert_fault(check(&missing, labels(0.0, 0.0, f32::INFINITY)), field, "an infinity");
    assert!(check(&run, integers(ConceptLabels, &[1, 3], &[1, 2, -70_000])).is_ok(), "numbers may be whole");
    // Only probabilities are rounded into 0 and 1, whatever the Monte-Carlo samples.
    let mut fields = mixed();
    fields.concepts[1].activation_kind = Some(ActivationKind::Logit);
    fields.concepts[2].activation_kind = Some(ActivationKind::Continuous);
    let batch = Batch::new(
        vec![floats(ConceptActivations, &[1, 5, 2], &[1.000_000_4; 10])],
        &Run::try_from(fields).unwrap(),
        NonFinite::Reject,
    );
    let mut values = Vec::new();
    batch.unwrap().tensor(ConceptActivations).unwrap().for_each_float(0, |value| values.push(value as f32));
    assert_eq!(values, [[1.0; 2], [1.000_000_4; 2], [1.000_000_4; 2], [1.000_000_4; 2], [1.000_000_4; 2]].concat());
}

// ---------------------------------------------------------------- tensors

#[test]
fn tensors_have_exactly_the_bytes_of_their_shape() {
    let float32 = |shape: &[u64], bytes: usize| {
        Tensor::numbers(ConceptActivations, DataType::Float32, shape, Bytes::from(vec![0; bytes]))
    };
    assert!(float32(&[2, 3], 24).is_ok());
    let half = u64::MAX / 2;
    let cases: &[(&[u64], usize, &str, &str)] = &[
        (&[2, 3], 23, "data", "got 23 bytes"),
        (&[2, 3], 25, "data", "expected 24"),
        (&[2, 3], 0, "data", "got 0 bytes"),
        (&[], 4, "shape", "0 dimensions"),
        (&[1; 9], 4, "shape", "9 dimensions"),
        (&[0, 3], 0, "shape", "expected every dimension to be at least 1"),
        (&[3, 0], 0, "shape", "expected every dimension to be at least 1"),
        (&[half, half], 16, "shape", "overflows"),
        (&[u64::MAX], 16, "shape", "overflows"),
        // A product that overflows to 0 bytes, and one that overflows to the given length.
        (&[1 << 32, 1 << 32], 0, "shape", "overflows"),
        (&[1 << 62, 4], 16, "shape", "overflows"),
        (&[1 << 40], 16, "data", "got 16 bytes"),
    ];
    for (shape, bytes, part, says) in cases {
        assert_fault(float32(shape, *bytes), &format!("tensors.concept_activations.{part}"), says);
    }
    let strings = Tensor::numbers(PredictedText, DataType::String, &[1], Bytes::new());
    assert_fault(strings, "tensors.predicted_text.dtype", "texts");
}

#[test]
fn texts_are_short_and_one_per_row() {
    let texts = |shape: &[u64], texts: &[&str]| {
        Tensor::texts(PredictedText, shape, texts.iter().map(|&text| text.to_owned()).collect())
    };
    let longest = "x".repeat(MAX_TEXT);
    assert_eq!(texts(&[2], &["a", &longest]).unwrap().text(0), "a");
    assert_fault(texts(&[1], &[&format!("{longest}y")]), "tensors.predicted_text.texts", "row 0 has 4097 bytes");
    assert_fault(texts(&[2], &["a"]), "tensors.predicted_text.texts", "got 1 strings");
    assert_fault(texts(&[1 << 63], &["a"]), "tensors.predicted_text.texts", "got 1 strings");
    assert_fault(texts(&[1, 1], &["a"]), "tensors.predicted_text.texts", "one string for each row");
    assert_fault(texts(&[0], &[]), "tensors.predicted_text.shape", "expected every dimension to be at least 1");
}

#[test]
fn every_element_type_reads_back_its_values() {
    let read = |dtype: DataType, bytes: Vec<u8>| {
        let rows = (bytes.len() / dtype.size()) as u64;
        let tensor = Tensor::numbers(ConceptActivations, dtype, &[rows, 1], bytes.into()).unwrap();
        let mut values = Vec::new();
        (0..tensor.rows()).for_each(|row| tensor.for_each_float(row, |value| values.push(value)));
        values
    };
    let bytes = |values: &[&[u8]]| values.concat();
    assert_eq!(read(DataType::Float16, bytes(&[&[0x00, 0x3c], &[0x00, 0xc0]])), [1.0, -2.0]);
    assert_eq!(read(DataType::BFloat16, bytes(&[&[0x80, 0x3f], &[0x00, 0xc0]])), [1.0, -2.0]);
    assert_eq!(read(DataType::Float32, bytes(&[&0.1f32.to_le_bytes()])), [f64::from(0.1f32)]);
    assert_eq!(read(DataType::Float64, bytes(&[&0.1f64.to_le_bytes()])), [0.1]);
    assert_eq!(read(DataType::Int8, vec![0xff, 5]), [-1.0, 5.0]);
    assert_eq!(read(DataType::UInt8, vec![0xff, 5]), [255.0, 5.0]);
    assert_eq!(read(DataType::Bool, vec![0, 1]), [0.0, 1.0]);
    assert_eq!(read(DataType::Int16, bytes(&[&(-300i16).to_le_bytes()])), [-300.0]);
    assert_eq!(read(DataType::UInt16, bytes(&[&65_535u16.to_le_bytes()])), [65_535.0]);
    assert_eq!(read(DataType::Int32, bytes(&[&i32::MIN.to_le_bytes()])), [f64::from(i32::MIN)]);
    assert_eq!(read(DataType::UInt32, bytes(&[&u32::MAX.to_le_bytes()])), [f64::from(u32::MAX)]);
    assert_eq!(read(DataType::Int64, bytes(&[&(-7i64).to_le_bytes()])), [-7.0]);
    assert_eq!(read(DataType::UInt64, bytes(&[&u64::MAX.to_le_bytes()])), [u64::MAX as f64]);
}

#[test]
fn texts_hold_no_numbers() {
    let texts = zeros(PredictedText, DataType::String, &[2]);
    texts.for_each_float(0, |value| panic!("{value} read from a text"));
    texts.for_each_integer(1, |value| panic!("{value} read from a text"));
    assert_eq!(texts.first_non_finite_row(0), None);
}

#[test]
fn the_first_non_finite_row_is_found_wherever_it_is() {
    for (dtype, bytes) in [
        (DataType::Float16, &0x7e00_u16.to_le_bytes()[..]),
        (DataType::BFloat16, &0x7f80_u16.to_le_bytes()),
        (DataType::Float64, &f64::INFINITY.to_le_bytes()),
    ] {
        let data = [&vec![0; bytes.len()], bytes].concat();
        let tensor = Tensor::numbers(ConceptActivations, dtype, &[2, 1], data.into()).unwrap();
        assert_eq!(tensor.first_non_finite_row(0), Some(1), "{dtype:?}");
    }
    for (rows, bad) in [(1, 0), (200, 0), (200, 130), (1000, 999)] {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
            let mut values = vec![1e38; rows * 3];
            values[bad * 3 + 2] = value;
            let tensor = floats(ConceptActivations, &[rows as u64, 3], &values);
            assert_eq!(tensor.first_non_finite_row(0), Some(bad));
            assert_eq!(tensor.first_non_finite_row(bad), Some(bad));
            assert_eq!(tensor.first_non_finite_row(bad + 1), None);
        }
    }
}

#[test]
fn ids_take_every_non_negative_integer() {
    let huge = Tensor::numbers(SampleIds, DataType::UInt64, &[1], u64::MAX.to_le_bytes().to_vec().into()).unwrap();
    assert_eq!(huge.id(0), Some(u64::MAX));
    let mixed = integers(SampleIds, &[2], &[i64::MAX, -1]);
    assert_eq!((mixed.id(0), mixed.id(1)), (Some(i64::MAX as u64), None));
}

// ---------------------------------------------------------------- batches

/// A shape that a tensor may have in a run of three binary concepts, and a type.
fn example(name: TensorName) -> (&'static [u64], DataType) {
    match name {
        ConceptActivations => (&[4, 3], DataType::Float16),
        ConceptLabels => (&[4, 3], DataType::Bool),
        TaskLabels | TaskPredictions | IntervenedTaskPredictions | AblatedTaskPredictions | Groups => {
            (&[4], DataType::Int64)
        }
        InterventionPredictions | WrongInterventionPredictions => (&[4, 3], DataType::Int16),
        SampleIds => (&[4], DataType::UInt64),
        TaskLogits => (&[4, 7], DataType::BFloat16),
        ConceptEmbeddings | PositiveEmbeddings | NegativeEmbeddings => (&[4, 3, 8], DataType::Float32),
        ActiveConcepts => (&[4, 3], DataType::UInt8),
        ImageEmbeddings | PredictedTextEmbeddings | ReferenceTextEmbeddings => (&[4, 5], DataType::Float64),
        PredictedText | ReferenceText => (&[4], DataType::String),
        LocalizationMaps => (&[4, 3, 6, 5], DataType::Float32),
        LocalizationPeaks => (&[4, 3, 2], DataType::Float32),
        DeepFeatures | ShallowFeatures | CrossImageDifference => (&[4, 6, 2, 3], DataType::Float32),
        PartLocations => (&[4, 9, 2], DataType::Float32),
    }
}

#[test]
fn every_tensor_passes_with_a_shape_and_type_of_its_table_row() {
    for &name in TensorName::ALL {
        let (shape, dtype) = example(name);
        let mut tensors = vec![zeros(name, dtype, shape)];
        if name == SampleIds {
            tensors.push(zeros(TaskLabels, DataType::Int32, &[4]));
        }
        let batch = Batch::new(tensors, &run(&[2, 2, 2]), NonFinite::Reject).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!((batch.rows(), batch.schema().contains(name)), (4, true));
        assert_eq!(TensorName::parse(name.text()), Some(name));
    }
    assert_eq!(TensorName::parse("concept_activation"), None);
    assert_eq!(TensorName::parse(""), None);
}

#[test]
fn wrong_shapes_are_refused() {
    let binary = run(&[2, 2, 2]);
    let mixed = run(&[2, 4]);
    let float = DataType::Float32;
    let cases: &[(&Run, TensorName, DataType, &[u64])] = &[
        (&binary, ConceptActivations, float, &[4]),
        (&binary, ConceptActivations, float, &[4, 2]),
        (&binary, ConceptActivations, float, &[4, 4]),
        (&binary, ConceptActivations, float, &[4, 2, 5]),
        (&binary, ConceptLabels, float, &[4]),
        (&binary, ConceptLabels, float, &[4, 6]),
        (&binary, TaskLabels, float, &[4, 2]),
        (&binary, TaskPredictions, float, &[4, 2]),
        (&binary, IntervenedTaskPredictions, float, &[4, 3]),
        (&binary, ConceptEmbeddings, float, &[4, 3]),
        (&binary, ConceptEmbeddings, float, &[4, 8, 3]),
        (&binary, ActiveConcepts, DataType::Bool, &[4, 2]),
        (&binary, ImageEmbeddings, float, &[4]),
        (&binary, LocalizationMaps, float, &[4, 3, 5]),
        (&binary, LocalizationPeaks, float, &[4, 3, 3]),
        (&binary, DeepFeatures, float, &[4, 3, 3]),
        (&binary, CrossImageDifference, float, &[4, 3]),
        (&binary, PartLocations, float, &[4, 9]),
        (&binary, SampleIds, DataType::Int32, &[4, 1]),
        (&mixed, ConceptActivations, float, &[4, 2]),
        (&mixed, ConceptActivations, float, &[4, 4]),
        (&mixed, ConceptActivations, float, &[4, 8]),
    ];
    counted(cases.len());
    for (run, name, dtype, shape) in cases {
        let batch = Batch::new(vec![zeros(*name, *dtype, shape)], run, NonFinite::DropRow);
        assert_fault(batch, &format!("tensors.{name}.shape"), "expected [");
    }
    for &name in TensorName::ALL.iter().filter(|name| name.content() != Content::Texts) {
        let six = zeros(name, example(name).1, &[4, 2, 2, 2, 2, 2]);
        assert_fault(
            Batch::new(vec![six], &binary, NonFinite::DropRow),
            &format!("tensors.{name}.shape"),
            "expected [n",
        );
    }
    let (two, latents) = (in_two_columns(&[2, 4]), with_latents(&[2, 4], 6));
    for (run, columns) in [(&mixed, 5), (&two, 6), (&latents, 6)] {
        for shape in [&[4, columns][..], &[4, columns, 7]] {
            let activations = zeros(ConceptActivations, float, shape);
            assert!(Batch::new(vec![activations], run, NonFinite::Reject).is_ok(), "{shape:?}");
        }
    }
    for (run, columns, says) in [
        (&mixed, 6, "a column for each class of every concept declare activation_columns two_per_concept, for columns"),
        (&mixed, 7, "got [4, 7], expected [n, 5] or [n, 5, m] with k = 2 concepts; for columns learnt without labels"),
        (&two, 5, "for one column for each binary concept declare activation_columns one_per_concept"),
        (
            &latents,
            5,
            "expected [n, 6] or [n, 6, m] with 6 latents; for columns learnt without labels declare latents 5",
        ),
    ] {
        let batch = Batch::new(vec![zeros(ConceptActivations, float, &[4, columns])], run, NonFinite::Reject);
        assert_fault(batch, "tensors.concept_activations.shape", says);
    }
}

/// Each tensor in each type of numbers that it may not have, and where a row is one element, in texts.
#[test]
fn wrong_types_are_refused() {
    for &name in TensorName::ALL {
        let shape = example(name).0;
        let is_allowed = |dtype: DataType| match (name.content(), dtype) {
            (_, DataType::String) => name.content() == Content::Texts || shape.len() > 1,
            // Of hard concepts.
            (Content::Floats, _) if name == ConceptActivations => true,
            (Content::Floats | Content::FloatsOrNan, _) => dtype.is_float(),
            (Content::Labels | Content::LabelsOrNone, _) => true,
            (Content::Flags, _) => !dtype.is_float(),
            (Content::Ids, _) => dtype.is_integer(),
            (Content::Texts, _) => false,
        };
        let wrong: Vec<DataType> = DataType::ALL.iter().copied().filter(|dtype| !is_allowed(*dtype)).collect();
        counted(wrong.len());
        for dtype in wrong {
            let batch = Batch::new(vec![zeros(name, dtype, shape)], &run(&[2, 2, 2]), NonFinite::Reject);
            assert_fault(batch, &format!("tensors.{name}.dtype"), &format!("got {}, expected ", dtype.name()));
        }
    }
}

#[test]
fn feature_maps_share_a_small_grid() {
    let run = run(&[2, 2]);
    let maps = |deep: &[u64], shallow: &[u64]| {
        let float = DataType::Float32;
        Batch::new(
            vec![zeros(DeepFeatures, float, deep), zeros(ShallowFeatures, float, shallow)],
            &run,
            NonFinite::Reject,
        )
    };
    assert!(maps(&[4, 6, 7, 7], &[4, 9, 7, 7]).is_ok());
    assert_fault(
        maps(&[4, 6, 7, 7], &[4, 1, 8, 8]),
        "tensors.shallow_features.shape",
        "got [4, 1, 8, 8], expected the 7 x 7 cells of deep_features; fold windows",
    );
    assert_fault(maps(&[4, 6, 9, 9], &[4, 6, 9, 9]), "tensors.deep_features.shape", "81 cells, expected 2 to 64");
    assert_fault(maps(&[4, 6, 7, 7], &[4, 6, 1, 1]), "tensors.shallow_features.shape", "1 cells, expected 2 to 64");
}

#[test]
fn probabilities_of_absence_and_presence_are_no_samples() {
    let of = |values: &[f32]| {
        Batch::new(vec![floats(ConceptActivations, &[2, 2, 2], values)], &run(&[2, 2]), NonFinite::Reject)
    };
    let both = [0.9, 0.1, 0.25, 0.75, 0.5, 0.5, 0.0, 1.0];
    assert_fault(of(&both), "tensors.concept_activations", "two values for each concept that sum to 1");
    assert!(of(&[0.9, 0.1, 0.25, 0.75, 0.5, 0.5, 0.0, 0.9]).is_ok());
    assert!(of(&[0.5; 8]).is_ok(), "an untrained model");
}

#[test]
fn labels_out_of_range_are_refused() {
    let run = run(&[2, 4]);
    let labels = |a: i64, b: i64| integers(ConceptLabels, &[1, 2], &[a, b]);
    let bools = |name, shape: &[u64], bytes: Vec<u8>| Tensor::numbers(name, DataType::Bool, shape, bytes.into());
    let logits = |columns: u64| zeros(TaskLogits, DataType::Float32, &[1, columns]);
    let task = |name, value| integers(name, &[1], &[value]);
    let unsigned = Tensor::numbers(TaskLabels, DataType::UInt64, &[1], u64::MAX.to_le_bytes().to_vec().into()).unwrap();
    let cases: Vec<(Vec<Tensor>, TensorName, &str)> = vec![
        (vec![labels(2, 0)], ConceptLabels, "has 2 for concept 'c0', expected 0 to 1; classes count from 0"),
        (vec![labels(-999, 0)], ConceptLabels, "declare missing_concept_labels and send -1"),
        (vec![labels(-1, 0)], ConceptLabels, "has -1"),
        (vec![labels(0, 4)], ConceptLabels, "for concept 'c1', expected 0 to 3"),
        (vec![labels(0, i64::MAX)], ConceptLabels, "concept 'c1'"),
        (vec![bools(ConceptLabels, &[1, 2], vec![0, 3]).unwrap()], ConceptLabels, "bool"),
        (vec![bools(TaskLabels, &[1], vec![7]).unwrap()], TaskLabels, "bool"),
        (vec![bools(ConceptActivations, &[1, 5], vec![0, 0, 9, 0, 0]).unwrap()], ConceptActivations, "has 9"),
        (vec![integers(ActiveConcepts, &[1, 2], &[0, 2])], ActiveConcepts, "flag"),
        (vec![task(TaskLabels, -1)], TaskLabels, "has -1"),
        (vec![task(TaskLabels, 65_536)], TaskLabels, "expected 0 to 65535"),
        (vec![unsigned], TaskLabels, "expected 0 to 65535"),
        (vec![task(TaskPredictions, 1 << 40)], TaskPredictions, "expected 0 to 65535"),
        (vec![task(IntervenedTaskPredictions, -5)], IntervenedTaskPredictions, "has -5"),
        (vec![integers(InterventionPredictions, &[1, 2], &[0, -2])], InterventionPredictions, "or -1 for none"),
        (
            vec![integers(WrongInterventionPredictions, &[1, 2], &[0, 3]), logits(3)],
            WrongInterventionPredictions,
            "classes of task_logits",
        ),
        (vec![task(TaskLabels, 0), task(SampleIds, -1)], SampleIds, "row 0 is negative"),
        (vec![floats(TaskLabels, &[1], &[0.5])], TaskLabels, "declare the run's label kind continuous"),
        (vec![floats(TaskPredictions, &[1], &[0.5])], TaskPredictions, "expected class numbers"),
        (vec![floats(TaskLabels, &[1], &[1e30])], TaskLabels, "expected 0 to 65535"),
        (vec![floats(TaskLabels, &[1], &[-1.0])], TaskLabels, "has -1"),
        (vec![floats(ConceptLabels, &[1, 2], &[0.0, 1.5])], ConceptLabels, "row 0 has 1.5"),
        (vec![task(TaskLabels, 3), logits(3)], TaskLabels, "classes of task_logits"),
        (vec![task(TaskPredictions, 2), logits(1)], TaskPredictions, "expected 0 to 1"),
        (vec![task(IntervenedTaskPredictions, 3), logits(3)], IntervenedTaskPredictions, "classes of task_logits"),
    ];
    counted(cases.len());
    for (tensors, name, says) in cases {
        assert_fault(Batch::new(tensors, &run, NonFinite::Reject), &format!("tensors.{name}"), says);
    }
    for value in [0, 65_535] {
        assert!(Batch::new(vec![task(TaskLabels, value)], &run, NonFinite::Reject).is_ok());
    }
    assert!(Batch::new(vec![labels(1, 3), task(TaskLabels, 1), logits(1)], &run, NonFinite::Reject).is_ok());
}

#[test]
fn interventions_have_a_column_for_each_count() {
    let tensor = |name, columns: usize| integers(name, &[2, columns as u64], &vec![-1; 2 * columns]);
    let declared = |counts: &[u32]| {
        let constants = RunConstants { intervention_counts: counts.to_vec(), ..Default::default() };
        Run::try_from(RunFields { constants, ..fields(&[2, 2, 2]) }).unwrap()
    };
    let field = |name: TensorName| format!("tensors.{name}.shape");
    for name in [InterventionPredictions, WrongInterventionPredictions] {
        let batch = |run: &Run, columns| Batch::new(vec![tensor(name, columns)], run, NonFinite::Reject);
        assert!((2..=4).all(|columns| batch(&declared(&[]), columns).is_ok()));
        for columns in [1, 5] {
            let says = format!("got [2, {columns}], expected 2 to 4 columns");
            assert_fault(batch(&declared(&[]), columns), &field(name), &says);
        }
        assert!(batch(&declared(&[0, 1, 3]), 3).is_ok());
        let says = "got [2, 4], expected [n, 3] as in run.constants.intervention_counts = [0, 1, 3]";
        assert_fault(batch(&declared(&[0, 1, 3]), 4), &field(name), says);
    }
    let both = vec![tensor(InterventionPredictions, 4), tensor(WrongInterventionPredictions, 3)];
    let says = "got [2, 3], expected [2, 4] as in intervention_predictions";
    assert_fault(Batch::new(both, &declared(&[]), NonFinite::Reject), &field(WrongInterventionPredictions), says);
}

#[test]
fn continuous_labels_take_any_finite_number() {
    let kinds = RunFields {
        concept_label_kind: LabelKind::Continuous,
        task_label_kind: LabelKind::Continuous,
        ..fields(&[1, 1])
    };
    let run = Run::try_from(kinds).unwrap();
    let tensors = vec![
        floats(ConceptLabels, &[1, 2], &[-1e30, 0.25]),
        floats(TaskLabels, &[1], &[-3.5]),
        zeros(TaskLogits, DataType::Float32, &[1, 1]),
    ];
    assert!(Batch::new(tensors, &run, NonFinite::Reject).is_ok());
    let batch = Batch::new(vec![floats(TaskLabels, &[1], &[f32::NAN])], &run, NonFinite::Reject);
    assert_fault(batch, "tensors.task_labels", "row 0 has a NaN or an infinity");
    let flag = Tensor::numbers(TaskLabels, DataType::Bool, &[1], vec![7].into()).unwrap();
    assert_fault(Batch::new(vec![flag], &run, NonFinite::Reject), "tensors.task_labels", "bool");
}

#[test]
fn non_finite_rows_are_refused_or_left_out_never_changed() {
    let run = run(&[2]);
    let tensors = || {
        vec![
            // Row 3 also has a label out of range, which is accepted where the row is left out, in either order of
            // tensors.
            floats(TaskLabels, &[4], &[0.0, 1.0, f32::NAN, -7.5]),
            floats(ConceptActivations, &[4, 1], &[0.1, f32::INFINITY, 0.3, f32::NEG_INFINITY]),
        ]
    };
    let refused = Batch::new(tensors(), &run, NonFinite::Reject);
    assert_fault(refused, "tensors.task_labels", "row 2 has a NaN or an infinity");
    let reversed = tensors().into_iter().rev().collect();
    for tensors in [tensors(), reversed] {
        let batch = Batch::new(tensors, &run, NonFinite::DropRow).unwrap();
        assert_eq!((batch.rows(), batch.dropped_rows()), (4, 3));
        assert_eq!(batch.kept_rows().collect::<Vec<_>>(), [0]);
    }
    let all_bad = Batch::new(vec![floats(TaskLabels, &[1], &[f32::NAN])], &run, NonFinite::DropRow).unwrap();
    assert_eq!(all_bad.kept_rows().count(), 0);
}

#[test]
fn parts_may_be_invisible_but_not_infinitely_far() {
    let run = run(&[2]);
    let parts = |values: &[f32]| vec![floats(PartLocations, &[2, 1, 2], values)];
    let batch = Batch::new(parts(&[f32::NAN, f32::NAN, 1.0, 2.0]), &run, NonFinite::DropRow).unwrap();
    assert_eq!(batch.dropped_rows(), 0);
    let far = parts(&[f32::NAN, f32::NAN, 1.0, f32::INFINITY]);
    assert_fault(Batch::new(far.clone(), &run, NonFinite::Reject), "tensors.part_locations", "row 1 has an infinity");
    assert_eq!(Batch::new(far, &run, NonFinite::DropRow).unwrap().kept_rows().collect::<Vec<_>>(), [0]);
}

#[test]
fn tensors_of_a_batch_agree() {
    let run = run(&[2, 2]);
    let float = DataType::Float32;
    let labels = |rows| zeros(TaskLabels, DataType::Int32, &[rows]);
    let new = |tensors| Batch::new(tensors, &run, NonFinite::Reject);
    assert_fault(new(vec![]), "tensors", "got none");
    assert_fault(new(vec![zeros(SampleIds, DataType::UInt64, &[3])]), "tensors", "only sample_ids");
    let activations = zeros(ConceptActivations, float, &[4, 2]);
    assert_fault(new(vec![labels(3), activations]), "tensors.concept_activations.shape", "got 4 rows");
    assert_fault(new(vec![labels(3), labels(3)]), "tensors.task_labels", "twice");
    let positive = zeros(PositiveEmbeddings, float, &[3, 2, 8]);
    let negative = zeros(NegativeEmbeddings, float, &[3, 2, 9]);
    assert_fault(new(vec![positive, negative]), "tensors.negative_embeddings.shape", "as in positive_embeddings");
}

#[test]
fn a_schema_names_what_changed() {
    let run = run(&[2, 2]);
    let schema = |tensors| Batch::new(tensors, &run, NonFinite::Reject).unwrap().schema();
    let labels = |dtype, rows| zeros(TaskLabels, dtype, &[rows]);
    let embeddings = |width| zeros(ImageEmbeddings, DataType::Float32, &[5, width]);
    let before = schema(vec![labels(DataType::Int64, 5), embeddings(8)]);
    assert_eq!(before.check_same(&schema(vec![embeddings(8), labels(DataType::Int64, 5)])), Ok(()));
    let missing = schema(vec![embeddings(8)]);
    assert_fault(before.check_same(&missing), "tensors.task_labels", "is missing");
    assert_fault(missing.check_same(&before), "tensors.task_labels", "is new");
    let narrow = schema(vec![labels(DataType::Int32, 5), embeddings(8)]);
    assert_fault(
        before.check_same(&narrow),
        "tensors.task_labels.dtype",
        "got int32, expected int64 as in earlier chunks of the batch",
    );
    // Another batch may have another type, as where autocast covers it.
    assert_eq!(before.check_alike(&narrow), Ok(()));
    let wide = schema(vec![labels(DataType::Int64, 5), embeddings(9)]);
    for found in [before.check_same(&wide), before.check_alike(&wide)] {
        assert_fault(found, "tensors.image_embeddings.shape", "got rows of shape [9]");
    }
    let other_rows = schema(vec![labels(DataType::Int64, 7)]);
    assert_eq!(schema(vec![labels(DataType::Int64, 5)]).check_same(&other_rows), Ok(()));
}

// ---------------------------------------------------------------- runs

#[test]
fn names_are_text_that_a_person_can_read() {
    let names =
        ["a", "val/clean", "has_bill_shape::curved_(up_or_down)", "λ=0.1", "lr=1e-3,seed=2", "a bird's beak", "緑の翼"];
    let joined = ["می\u{200c}خواهم", "ක්\u{200d}ෂ", "👩\u{200d}👧", "❤\u{fe0f}"];
    let breaking = ["<b>", "a\"b", "{}", "a\\b", "%2e", "=1+1", " padded ", "😀", "\u{301}"];
    for name in names.into_iter().chain(joined).chain(breaking).chain([&*"é".repeat(200)]) {
        assert_eq!(check_name("run.name", name), Ok(()), "{name}");
    }
    let refused = [
        ("", "got none"),
        (&"é".repeat(201), "got 201, expected 1 to 200 characters"),
        ("a\nb", "the character \\u{a}"),
        ("a\0", "the character \\u{0}"),
        ("a\tb", "the character \\u{9}"),
        ("\u{202e}a", "the character \\u{202e}"),
        ("a\u{200b}b", "the character \\u{200b}"),
        ("a\u{200d}", "joins nothing"),
        ("\u{200c}a", "joins nothing"),
        ("a\u{200d}\u{200d}b", "joins nothing"),
        ("a \u{200d}b", "joins nothing"),
        ("\u{3164}", "the character \\u{3164}"),
        ("a\u{115f}", "the character \\u{115f}"),
        ("\u{2800}\u{fe0f}", "is blank"),
        ("\u{200d}", "is blank"),
        ("a\u{2028}b", "the character \\u{2028}"),
        ("a\u{2029}b", "the character \\u{2029}"),
        ("a\u{ad}b", "the character \\u{ad}"),
        (" ", "is blank"),
        ("\u{a0}\u{3000}", "is blank"),
        ("e\u{301}", "normalisation form C"),
        ("\u{212b}", "normalisation form C"),
    ];
    counted(refused.len());
    for (name, says) in refused {
        let fault = check_name("run.name", name).expect_err(name);
        assert_eq!(fault.field, "run.name");
        assert!(fault.message.contains(says) && fault.message.is_ascii(), "{fault:?}");
    }
}

#[test]
fn wrong_declarations_are_refused() {
    let constants = |constants: RunConstants| RunFields { constants, ..fields(&[2, 2]) };
    let labels = |pairs: &[(&str, &str)]| RunFields {
        labels: pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(),
        ..fields(&[2])
    };
    let many: Vec<String> = (0..33).map(|i| i.to_string()).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|key| (key.as_str(), "v")).collect();
    let concepts = |names: &[&str]| RunFields {
        concepts: names
            .iter()
            .map(|&name| Concept { name: name.into(), cardinality: 2, ..Concept::default() })
            .collect(),
        ..fields(&[])
    };
    let accuracy = |value| constants(RunConstants { reference_task_accuracy: Some(value), ..Default::default() });
    let omega = |value| constants(RunConstants { concept_score_weight: Some(value), ..Default::default() });
    let weights = |w: &[f64]| constants(RunConstants { concept_weights: w.to_vec(), ..Default::default() });
    let threshold = |value| constants(RunConstants { activity_threshold: Some(value), ..Default::default() });
    let top_k = |count| constants(RunConstants { active_top_k: Some(count), ..Default::default() });
    let counts = |c: &[u32]| constants(RunConstants { intervention_counts: c.to_vec(), ..Default::default() });
    let clarity = |w: &[f64]| constants(RunConstants { clarity_weights: w.to_vec(), ..Default::default() });
    let head = |w: &[f64]| constants(RunConstants { head_weights: w.to_vec(), ..Default::default() });
    let biased = |weights: usize, b: &[f64]| {
        constants(RunConstants { head_weights: vec![1.0; weights], head_bias: b.to_vec(), ..Default::default() })
    };
    let latents = |latents, of: RunFields| RunFields { latents: Some(latents), ..of };
    let with_size = |size: Concept| {
        let mut fields = mixed();
        fields.concepts[2] = Concept { name: "size".into(), label_kind: Some(LabelKind::Continuous), ..size };
        fields
    };
    let probability = Concept { activation_kind: Some(ActivationKind::Probability), ..Concept::default() };
    let in_two = RunFields { activation_columns: ActivationColumns::TwoPerConcept, ..fields(&[2, 2]) };
    for valid in
        [biased(6, &[0.5; 3]), latents(2, fields(&[2, 2])), latents(65_536, head(&[])), latents(7, head(&[1.0; 14]))]
    {
        Run::try_from(valid).unwrap();
    }
    let image = |size| constants(RunConstants { image_size: Some(size), ..Default::default() });
    let parts = |parts: &[Vec<u32>]| constants(RunConstants { concept_parts: parts.to_vec(), ..Default::default() });
    let cases: Vec<(RunFields, &str, &str)> = vec![
        (RunFields { name: "a\nb".into(), ..fields(&[2]) }, "run.name", "character \\u{a}"),
        (fields(&[]), "run.concepts", "got 0 concepts"),
        (fields(&[2; 4097]), "run.concepts", "got 4097 concepts, expected 1 to 4096"),
        (concepts(&["a", ""]), "run.concepts[1].name", "got none"),
        (concepts(&["a", "b", "a"]), "run.concepts[2].name", "'a' names two concepts"),
        (fields(&[2, 65_537]), "run.concepts[1].cardinality", "at most 65536"),
        (RunFields { world_size: 65_537, ..fields(&[2]) }, "run.world_size", "got 65537"),
        (labels(&many), "run.labels", "33 labels"),
        (labels(&[("", "v")]), "run.labels key", "got none"),
        (labels(&[("lambda", "\u{7}")]), "run.labels['lambda']", "character \\u{7}"),
        (accuracy(1.1), "run.constants.reference_task_accuracy", "got 1.1"),
        (accuracy(-0.1), "run.constants.reference_task_accuracy", "got -0.1"),
        (accuracy(f64::NAN), "run.constants.reference_task_accuracy", "got NaN"),
        (omega(0.0), "run.constants.concept_score_weight", "got 0"),
        (omega(f64::INFINITY), "run.constants.concept_score_weight", "got inf"),
        (threshold(-0.1), "run.constants.activity_threshold", "got -0.1"),
        (threshold(f64::INFINITY), "run.constants.activity_threshold", "got inf"),
        (top_k(0), "run.constants.active_top_k", "got 0, expected 1 to 2"),
        (top_k(3), "run.constants.active_top_k", "got 3, expected 1 to 2"),
        (clarity(&[1.0; 2]), "run.constants.clarity_weights", "got 2 weights, expected 3"),
        (clarity(&[0.0; 3]), "run.constants.clarity_weights", "not all 0"),
        (clarity(&[1.0, -1.0, 1.0]), "run.constants.clarity_weights", "at least 0"),
        (weights(&[1.0]), "run.constants.concept_weights", "got 1 weights, expected 2"),
        (weights(&[0.0, 0.0]), "run.constants.concept_weights", "not all 0"),
        (weights(&[1.0, -1.0]), "run.constants.concept_weights", "at least 0"),
        (weights(&[1.0, f64::NAN]), "run.constants.concept_weights", "finite"),
        (counts(&[0, 2, 2]), "run.constants.intervention_counts", "strictly ascending numbers from 0 to 2"),
        (counts(&[0, 3]), "run.constants.intervention_counts", "got [0, 3]"),
        (counts(&[1, 0]), "run.constants.intervention_counts", "strictly ascending"),
        (head(&[1.0; 3]), "run.constants.head_weights", "multiple of 2"),
        (head(&[1.0, f64::INFINITY]), "run.constants.head_weights", "finite"),
        (
            biased(6, &[0.5; 2]),
            "run.constants.head_bias",
            "got 2 biases, expected 3 finite ones, one for each class of head_weights",
        ),
        (biased(0, &[0.5]), "run.constants.head_bias", "got 1 biases, expected 0"),
        (biased(2, &[f64::NAN]), "run.constants.head_bias", "expected 1 finite ones"),
        (latents(1, fields(&[2, 2])), "run.latents", "got 1, expected at least one for each of 2 concepts"),
        (latents(65_537, fields(&[2])), "run.latents", "at most 65536"),
        (latents(7, head(&[1.0; 6])), "run.constants.head_weights", "got 6 weights, expected a multiple of 7"),
        (latents(6, in_two), "run.activation_columns", "got two_per_concept with 6 latents"),
        (
            with_size(concept("", 5, None)),
            "run.concepts[2].label_kind",
            "got continuous for 'size' with 5 classes, expected class",
        ),
        (
            with_size(probability),
            "run.concepts[2].activation_kind",
            "got probability for 'size', whose labels are continuous, expected continuous",
        ),
        (image((0, 5)), "run.constants.image_size", "got 0 x 5"),
        (image((5, 65_537)), "run.constants.image_size", "got 5 x 65537"),
        (parts(&[vec![1]]), "run.constants.concept_parts", "got 1 lists, expected 2"),
    ];
    counted(cases.len());
    for (fields, field, says) in cases {
        assert_fault(Run::try_from(fields), field, says);
    }
}

#[test]
fn the_largest_declaration_passes_and_survives_json() {
    let widest = run(&[65_536; 4096]);
    assert_eq!(widest.activation_blocks(65_536 * 4096).map(|blocks| blocks.len()), Some(4096));
    let run = run(&[0, 1, 2, 5]);
    assert_eq!(run.world_size, 1, "0 means 1");
    for run in [&run, &in_two_columns(&[2, 2]), &with_latents(&[2, 2], 9)] {
        let json = serde_json::to_string(run).unwrap();
        assert_eq!(&serde_json::from_str::<Run>(&json).unwrap(), run);
    }
    // The usual layout is not written, and a run read from a file is checked as well.
    let json = serde_json::to_string(&run).unwrap();
    assert!(!json.contains("activation_columns") && !json.contains("latents"), "{json}");
    assert!(serde_json::from_str::<Run>(&json.replace("\"c1\"", "\"c0\"")).is_err());
}

#[test]
fn activation_columns_are_one_or_two_for_binary_concepts_as_declared() {
    let (one, two) = (run(&[2, 4, 0]), in_two_columns(&[2, 4, 0]));
    assert_eq!(one.activation_blocks(6), Some(vec![0..1, 1..5, 5..6]));
    assert_eq!(two.activation_blocks(8), Some(vec![0..2, 2..6, 6..8]));
    for (run, columns) in [(&one, 8), (&two, 6), (&one, 7), (&one, 0)] {
        assert_eq!(run.activation_blocks(columns), None);
    }
    let latents = with_latents(&[2, 4, 0], 6);
    assert_eq!((latents.activation_width(), latents.activation_blocks(6)), (6, None), "none belongs to a concept");
}

// ---------------------------------------------------------------- several tasks

fn of_tasks(cardinalities: &[u32]) -> RunFields {
    let tasks = cardinalities.iter().enumerate();
    let tasks = tasks.map(|(i, &cardinality)| Task { name: format!("t{i}"), cardinality, ..Task::default() }).collect();
    RunFields { tasks, ..fields(&[2, 2, 2]) }
}

#[test]
fn tasks_have_names_of_their_own_and_no_stated_head() {
    let same = |name: &str| Task { name: name.into(), cardinality: 2, ..Task::default() };
    let twice = RunFields { tasks: vec![same("a"), same("a")], ..fields(&[2]) };
    assert_fault(Run::try_from(twice), "run.tasks[1].name", "'a' names two tasks");
    let mut stated = of_tasks(&[2, 2]);
    stated.constants.reference_task_accuracy = Some(0.9);
    assert_fault(
        Run::try_from(stated),
        "run.constants.reference_task_accuracy",
        "is of a single task, but there are 2",
    );
    let run = |cardinalities: &[u32]| Run::try_from(of_tasks(cardinalities)).unwrap();
    assert_eq!(run(&[2, 0, 5, 2]).task_logits(), [0..1, 1..2, 2..7, 7..8]);
    assert!(!run(&[2, 2]).is_continued_by(&run(&[2, 2, 2])), "the number of tasks is part of the declaration");
}

/// A task of three classes, and a number.
fn of_two_kinds() -> RunFields {
    let mut fields = of_tasks(&[3, 0]);
    fields.tasks[1].label_kind = Some(LabelKind::Continuous);
    fields
}

#[test]
fn each_task_has_its_own_kind_or_that_of_the_run() {
    let run = Run::try_from(of_two_kinds()).unwrap();
    assert_eq!([0, 1].map(|task| run.task_kind(task)), [LabelKind::Class, LabelKind::Continuous]);
    assert_eq!([0, 1].map(|task| run.of_one_task(task).task_label_kind), [LabelKind::Class, LabelKind::Continuous]);
    assert_eq!(run.task_logits(), [0..3, 3..4]);
    let json = serde_json::to_string(&run).unwrap();
    assert_eq!((serde_json::from_str::<Run>(&json).unwrap(), json.matches("\"label_kind\"").count()), (run.clone(), 1));
    // Kinds that are spelt out and are the run's change nothing, and scores are of the same tasks however they are stated.
    let mut spelt = of_two_kinds();
    spelt.tasks[0].label_kind = Some(LabelKind::Class);
    assert!(run.is_continued_by(&Run::try_from(spelt.clone()).unwrap()));
    spelt.task_label_kind = LabelKind::Continuous;
    let other = Run::try_from(spelt).unwrap();
    assert!(!run.is_continued_by(&other) && run.is_comparable(&other));
    assert!(!run.is_comparable(&Run::try_from(of_tasks(&[3, 0])).unwrap()));
    let mut single = of_tasks(&[0]);
    single.tasks[0].label_kind = Some(LabelKind::Continuous);
    assert!(Run::try_from(single).unwrap().has_continuous_labels(TaskLabels));
    let mut classes = of_two_kinds();
    classes.tasks[1].cardinality = 5;
    let says = "got continuous for 't1' with 5 classes, expected class";
    assert_fault(Run::try_from(classes), "run.tasks[1].label_kind", says);
}

#[test]
fn classes_stand_beside_numbers_as_class_numbers() {
    let run = Run::try_from(of_two_kinds()).unwrap();
    let with_unknown = Run::try_from(RunFields { missing_task_labels: true, ..of_two_kinds() }).unwrap();
    let nan = f32::NAN;
    for (values, run) in [(&[2.0, -0.5, 0.0, 71.25], &run), (&[-1.0, nan, nan, -1.0], &with_unknown)] {
        Batch::new(vec![floats(TaskLabels, &[2, 2], values)], run, NonFinite::Reject).unwrap();
    }
    let refused: &[(TensorName, &[u64], &[f32], &str)] = &[
        (
            TaskLabels,
            &[2, 2],
            &[2.0, 0.5, 0.5, 1.0],
            "row 1 has 0.5 for task 't0', expected class numbers; for measured quantities declare the task continuous",
        ),
        (TaskLabels, &[1, 2], &[3.0, 3.0], "row 0 has 3 for task 't0', expected 0 to 2 (classes)"),
        (TaskPredictions, &[1, 2], &[1.5, 1.5], "row 0 has 1.5 for task 't0', expected class numbers"),
        (InterventionPredictions, &[1, 2, 2], &[nan, nan, -2.0, -2.0], "row 0 has -2 for task 't0'"),
    ];
    for (name, shape, values, says) in refused {
        let batch = Batch::new(vec![floats(*name, shape, values)], &run, NonFinite::Reject);
        assert_fault(batch, &format!("tensors.{name}"), says);
    }
    // NaN stands for no prediction of either kind, and −1 for none of a class.
    let none = floats(InterventionPredictions, &[1, 2, 2], &[nan, nan, -1.0, -1.0]);
    Batch::new(vec![none], &run, NonFinite::Reject).unwrap();
}

#[test]
fn tensors_of_several_tasks_have_a_column_for_each() {
    let run = Run::try_from(of_tasks(&[2, 5])).unwrap();
    let int = DataType::Int64;
    let refused: &[(TensorName, DataType, &[u64], &str)] = &[
        (TaskLabels, int, &[4], "got [4], expected [n, 2] with the 2 tasks t0, t1"),
        (TaskLabels, int, &[4, 3], "got [4, 3], expected [n, 2]"),
        (TaskPredictions, int, &[4, 1], "expected [n, 2]"),
        (TaskLogits, DataType::Float32, &[4, 2], "got [4, 2], expected [n, 6]"),
        (IntervenedTaskPredictions, int, &[4], "expected [n, 2]"),
        (InterventionPredictions, int, &[4, 3], "got [4, 3], expected [n, m, 2]"),
    ];
    for (name, dtype, shape, says) in refused {
        let batch = Batch::new(vec![zeros(*name, *dtype, shape)], &run, NonFinite::Reject);
        assert_fault(batch, &format!("tensors.{name}.shape"), says);
    }
    let fits = [
        zeros(TaskLabels, int, &[4, 2]),
        zeros(TaskPredictions, int, &[4, 2]),
        zeros(TaskLogits, DataType::Float32, &[4, 6]),
        zeros(IntervenedTaskPredictions, int, &[4, 2]),
        zeros(InterventionPredictions, int, &[4, 3, 2]),
        zeros(WrongInterventionPredictions, int, &[4, 3, 2]),
    ];
    Batch::new(fits.to_vec(), &run, NonFinite::Reject).unwrap();
    let beyond = integers(TaskLabels, &[2, 2], &[1, 4, 2, 0]);
    let says = "row 1 has 2 for task 't0', expected 0 to 1 (classes)";
    assert_fault(Batch::new(vec![beyond], &run, NonFinite::Reject), "tensors.task_labels", says);
    let none = integers(InterventionPredictions, &[1, 2, 2], &[1, 4, -1, 5]);
    let says = "row 0 has 5 for task 't1', expected 0 to 4 (classes), or -1 for none";
    assert_fault(Batch::new(vec![none], &run, NonFinite::Reject), "tensors.intervention_predictions", says);
}

#[test]
fn unknown_task_labels_are_declared() {
    let labels = |values: &[i64]| vec![integers(TaskLabels, &[values.len() as u64], values)];
    let declared = Run::try_from(RunFields { missing_task_labels: true, ..fields(&[2]) }).unwrap();
    for unknown in [-1, -100] {
        let says = format!(
            "row 1 has {unknown}, expected 0 to 65535 (classes); for unknown labels declare missing_task_labels"
        );
        assert_fault(Batch::new(labels(&[1, unknown]), &run(&[2]), NonFinite::Reject), "tensors.task_labels", &says);
        Batch::new(labels(&[1, unknown]), &declared, NonFinite::Reject).unwrap();
    }
    let says = "row 0 has -2, expected 0 to 65535 (classes), or -1 or -100 where unknown";
    assert_fault(Batch::new(labels(&[-2, 1]), &declared, NonFinite::Reject), "tensors.task_labels", says);
    let nan = vec![floats(TaskLabels, &[2], &[f32::NAN, 1.0])];
    Batch::new(nan.clone(), &declared, NonFinite::Reject).unwrap();
    let says = "row 0 has a NaN or an infinity, expected finite values; for unknown labels declare missing_task_labels";
    assert_fault(Batch::new(nan, &run(&[2]), NonFinite::Reject), "tensors.task_labels", says);
}
