//! Invalid batches of one chunk.

use conceptwatch::server::proto::{BatchChunk, DataType, Tensor};
use leakage::tensor::{Content, Dim, TensorName};

use super::messages::Case;
use super::names;
use crate::common::chunk;
use crate::common::rows::{floats, integers, strings};

/// Rows of the valid batch that each case invalidates. Tensors: activations, concept labels, task labels, ids.
const N: u64 = 16;

type Spoil = fn(&mut BatchChunk);
type Place = fn(&mut BatchChunk) -> &mut String;

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = TABLE.iter().map(|&(name, field, says, spoil)| case(name, field, says, spoil)).collect();
    for (what, name, says) in names::hostile() {
        let fields: [(&str, Place); 3] =
            [("run", |c| &mut c.run), ("split", |c| &mut c.split), ("client", |c| &mut c.client)];
        for (field, place) in fields {
            let name = name.clone();
            cases.push(case(&format!("a {field} {what}"), field, says, move |c| *place(c) = name.clone()));
        }
    }
    cases.extend(of_other_types());
    cases.extend(TensorName::ALL.iter().filter(|name| name.content() != Content::Texts).map(|&name| {
        let shape = [N, 2, 2, 2, 2, 2];
        case(&format!("{name} in six dimensions"), field(name, "shape"), "expected [n", move |c| {
            let dtype = if name.content() == Content::Flags { DataType::Bool } else { DataType::Int64 };
            let dtype = if is_float(name) { DataType::Float32 } else { dtype };
            set(c, raw(name.text(), dtype, &shape, &vec![0; size(dtype)]));
        })
    }));
    cases
}

fn field(name: TensorName, part: &str) -> &'static str {
    Box::leak(format!("tensors.{name}.{part}").into_boxed_str())
}

fn is_float(name: TensorName) -> bool {
    matches!(name.content(), Content::Floats | Content::FloatsOrNan)
}

/// Bytes of an element.
fn size(dtype: DataType) -> usize {
    match dtype {
        DataType::Int8 | DataType::Uint8 | DataType::Bool => 1,
        DataType::Float16 | DataType::Bfloat16 | DataType::Int16 | DataType::Uint16 => 2,
        DataType::Float32 | DataType::Int32 | DataType::Uint32 => 4,
        _ => 8,
    }
}

/// Each tensor in each type of numbers that it may not have.
fn of_other_types() -> Vec<Case> {
    use DataType::{
        Bfloat16, Bool, Float16, Float32, Float64, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
    };
    let floats = [Float16, Bfloat16, Float32, Float64].as_slice();
    let others = [Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Bool].as_slice();
    let mut cases = Vec::new();
    for &name in TensorName::ALL {
        let (wrong, says) = match name.content() {
            // Of hard concepts.
            Content::Floats if name == TensorName::ConceptActivations => continue,
            Content::Floats | Content::FloatsOrNan => (others.to_vec(), "expected a float type"),
            Content::Flags => (floats.to_vec(), "expected bool"),
            Content::Ids => ([floats, &[Bool]].concat(), "expected an integer type"),
            Content::Texts => ([floats, others].concat(), "expected string"),
            Content::Labels | Content::LabelsOrNone => continue,
        };
        let shape: Vec<u64> = name.shapes()[0]
            .iter()
            .map(|dim| match dim {
                Dim::Rows => N,
                Dim::Exactly(size) => *size as u64,
                Dim::Concepts | Dim::Activations | Dim::Any(_) => 2,
                Dim::Tasks => 1,
            })
            .collect();
        for dtype in wrong {
            let shape = shape.clone();
            cases.push(case(&format!("{name} as {dtype:?}"), field(name, "dtype"), says, move |c| {
                set(c, raw(name.text(), dtype, &shape, &vec![0; size(dtype)]));
            }));
        }
    }
    cases
}

fn case(name: &str, field: &'static str, says: &'static str, spoil: impl Fn(&mut BatchChunk) + 'static) -> Case {
    let messages = move |run: &str| {
        let mut bad = chunk(run, 1, 0..N);
        spoil(&mut bad);
        vec![crate::common::Sent::message(bad)]
    };
    Case::new(&format!("batch: {name}"), field, says, messages)
}

fn set(chunk: &mut BatchChunk, tensor: Tensor) {
    chunk.tensors.retain(|t| t.name != tensor.name);
    chunk.tensors.push(tensor);
}

fn zeros(name: &str, shape: &[u64]) -> Tensor {
    floats(name, shape, &vec![0.0; shape.iter().product::<u64>() as usize])
}

/// `task_labels` that are 0 but for row 3.
fn with_label(label: i64) -> Tensor {
    integers("task_labels", &[N], &[0, 0, 0, label, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// Floats of another type: 0 but for element 5.
fn raw(name: &str, dtype: DataType, shape: &[u64], element: &[u8]) -> Tensor {
    let mut data = vec![0; shape.iter().product::<u64>() as usize * element.len()];
    data[5 * element.len()..][..element.len()].copy_from_slice(element);
    Tensor { name: name.into(), dtype: dtype.into(), shape: shape.into(), data: data.into(), texts: vec![] }
}

/// One concept activation replaced.
fn with_activation(value: f32) -> Tensor {
    raw("concept_activations", DataType::Float32, &[N, 2], &value.to_le_bytes())
}

const NOT_FINITE: &str = "row 2 has a NaN or an infinity, expected finite values";

#[rustfmt::skip]
const TABLE: &[(&str, &str, &str, Spoil)] = &[
    // Names and types of tensors.
    ("no tensors", "tensors", "expected at least one", |c| c.tensors.clear()),
    ("nothing but ids", "tensors", "expected something to score", |c| c.tensors.retain(|t| t.name == "sample_ids")),
    ("an unknown tensor", "tensors.name", "expected one of concept_activations", |c| c.tensors[0].name = "activations".into()),
    ("a tensor without a name", "tensors.name", "expected one of", |c| c.tensors[0].name.clear()),
    ("a tensor named in capitals", "tensors.name", "expected one of", |c| c.tensors[2].name = "Task_Labels".into()),
    ("a tensor named by a path", "tensors.name", "expected one of", |c| c.tensors[2].name = "../task_labels".into()),
    ("a tensor name of control characters", "tensors.name", "expected one of", |c| c.tensors[2].name = "a\n\u{1b}[2J".into()),
    ("an enormous tensor name", "tensors.name", "expected one of", |c| c.tensors[2].name = "x".repeat(1 << 20)),
    ("a tensor twice", "tensors.task_labels", "is given twice", |c| { let t = c.tensors[2].clone(); c.tensors.push(t) }),
    ("one tensor too many", "tensors", "expected at most 26", |c| { let t = c.tensors[2].clone(); c.tensors = vec![t; 27] }),
    ("a million empty tensors", "tensors", "expected at most 26", |c| c.tensors = vec![Tensor::default(); 1_000_000]),
    ("no data type", "tensors.task_labels.dtype", "expected a data type from 1 to 14", |c| c.tensors[2].dtype = 0),
    ("data type 15", "tensors.task_labels.dtype", "got 15", |c| c.tensors[2].dtype = 15),
    ("a negative data type", "tensors.task_labels.dtype", "got -1", |c| c.tensors[2].dtype = -1),
    ("strings for activations", "tensors.concept_activations.shape", "got [16], expected [n, 2]", |c| c.tensors[0] = strings("concept_activations", &[N], &["a"; 16])),
    ("strings for labels", "tensors.task_labels.dtype", "got string, expected", |c| c.tensors = vec![strings("task_labels", &[2], &["a", "b"])]),
    ("integers for logits", "tensors.task_logits.dtype", "got int64, expected a float type", |c| set(c, integers("task_logits", &[N, 3], &[0; 48]))),
    ("floats for flags", "tensors.active_concepts.dtype", "expected bool", |c| set(c, zeros("active_concepts", &[N, 2]))),
    ("floats for ids", "tensors.sample_ids.dtype", "expected an integer type", |c| set(c, zeros("sample_ids", &[N]))),
    ("numbers for text", "tensors.predicted_text.dtype", "expected string", |c| set(c, zeros("predicted_text", &[N]))),
    ("strings beside numbers", "tensors.task_labels.texts", "expected none", |c| c.tensors[2].texts = vec!["a".into()]),
    ("numbers beside strings", "tensors.predicted_text.data", "expected none", |c| { let mut t = strings("predicted_text", &[N], &["a"; 16]); t.data = vec![0; 8].into(); set(c, t) }),
    // Shapes and lengths.
    ("no shape", "tensors.task_labels.shape", "expected 1 to 8", |c| c.tensors[2].shape.clear()),
    ("nine dimensions", "tensors.task_labels.shape", "expected 1 to 8", |c| c.tensors[2].shape = vec![1; 9]),
    ("a million dimensions", "tensors.task_labels.shape", "expected 1 to 8", |c| c.tensors[2].shape = vec![1; 1_000_000]),
    ("no rows", "tensors.task_labels.shape", "expected every dimension to be at least 1", |c| c.tensors[2] = integers("task_labels", &[0], &[])),
    ("no columns", "tensors.concept_activations.shape", "expected every dimension to be at least 1", |c| c.tensors[0] = zeros("concept_activations", &[N, 0])),
    ("2^63 rows", "tensors.concept_activations.shape", "overflows", |c| c.tensors[0].shape = vec![1 << 63, 2]),
    ("2^64 - 1 rows", "tensors.task_labels.shape", "overflows", |c| c.tensors[2].shape = vec![u64::MAX]),
    ("2^32 by 2^32", "tensors.concept_activations.shape", "overflows", |c| c.tensors[0].shape = vec![1 << 32, 1 << 32]),
    ("a product that overflows to the right length", "tensors.concept_activations.shape", "overflows", |c| c.tensors[0].shape = vec![(1 << 62) + 8, 4]),
    ("2^40 rows declared", "tensors.task_labels.data", "got 128 bytes", |c| c.tensors[2].shape = vec![1 << 40]),
    ("2^63 strings declared", "tensors.predicted_text.texts", "expected one string for each row", |c| set(c, strings("predicted_text", &[1 << 63], &["a"]))),
    ("data cut off", "tensors.concept_activations.data", "got 127 bytes", |c| { let cut = c.tensors[0].data.slice(..127); c.tensors[0].data = cut }),
    ("data too long", "tensors.task_labels.data", "got 136 bytes", |c| c.tensors[2].data = vec![0; 136].into()),
    ("no data", "tensors.task_labels.data", "got 0 bytes", |c| c.tensors[2].data = Default::default()),
    ("the data of another type", "tensors.concept_activations.data", "for float64", |c| c.tensors[0].dtype = DataType::Float64.into()),
    ("three activations of two concepts", "tensors.concept_activations.shape", "got [16, 3], expected [n, 2]", |c| c.tensors[0] = zeros("concept_activations", &[N, 3])),
    ("two activations a concept", "tensors.concept_activations.shape", "declare activation_columns two_per_concept", |c| c.tensors[0] = zeros("concept_activations", &[N, 4])),
    ("five latents of two concepts", "tensors.concept_activations.shape", "learnt without labels declare latents 5", |c| c.tensors[0] = zeros("concept_activations", &[N, 5])),
    ("activations in one dimension", "tensors.concept_activations.shape", "expected [n, 2]", |c| c.tensors[0] = zeros("concept_activations", &[N])),
    ("activations in four dimensions", "tensors.concept_activations.shape", "expected [n, 2]", |c| c.tensors[0] = zeros("concept_activations", &[N, 2, 1, 1])),
    ("labels of one concept of two", "tensors.concept_labels.shape", "got [16, 1]", |c| c.tensors[1] = integers("concept_labels", &[N, 1], &[0; 16])),
    ("concept labels in one dimension", "tensors.concept_labels.shape", "expected [n, 2]", |c| c.tensors[1] = integers("concept_labels", &[N], &[0; 16])),
    ("one-hot task labels", "tensors.task_labels.shape", "of one-hot labels send the class numbers", |c| c.tensors[2] = integers("task_labels", &[N, 2], &[0; 32])),
    ("predictions of two tasks", "tensors.task_predictions.shape", "expected [n]", |c| set(c, integers("task_predictions", &[N, 2], &[0; 32]))),
    ("logits in three dimensions", "tensors.task_logits.shape", "expected [n, l] or [n]", |c| set(c, zeros("task_logits", &[N, 3, 1]))),
    ("embeddings of three concepts", "tensors.concept_embeddings.shape", "got [16, 3, 4]", |c| set(c, zeros("concept_embeddings", &[N, 3, 4]))),
    ("embeddings without concepts", "tensors.concept_embeddings.shape", "expected [n, 2, d]", |c| set(c, zeros("concept_embeddings", &[N, 4]))),
    ("negative embeddings of another width", "tensors.negative_embeddings.shape", "as in positive_embeddings", |c| { set(c, zeros("positive_embeddings", &[N, 2, 4])); set(c, zeros("negative_embeddings", &[N, 2, 3])) }),
    ("feature maps of another grid", "tensors.shallow_features.shape", "3 x 2 cells of deep_features", |c| { set(c, zeros("deep_features", &[N, 1, 3, 2])); set(c, zeros("shallow_features", &[N, 4, 2, 2])) }),
    ("feature maps of 1,024 cells", "tensors.deep_features.shape", "1024 cells, expected 2 to 64", |c| set(c, zeros("deep_features", &[N, 1, 32, 32]))),
    ("maps without a width", "tensors.localization_maps.shape", "expected [n, 2, h, w]", |c| set(c, zeros("localization_maps", &[N, 2, 4]))),
    ("peaks of three coordinates", "tensors.localization_peaks.shape", "expected [n, 2, 2]", |c| set(c, zeros("localization_peaks", &[N, 2, 3]))),
    ("parts of one coordinate", "tensors.part_locations.shape", "expected [n, p, 2]", |c| set(c, zeros("part_locations", &[N, 5, 1]))),
    ("ids as a column", "tensors.sample_ids.shape", "expected [n]", |c| set(c, integers("sample_ids", &[N, 1], &[0; 16]))),
    ("a label too few", "tensors.task_labels.shape", "got 15 rows, expected 16 as in concept_activations", |c| c.tensors[2] = integers("task_labels", &[15], &[0; 15])),
    ("an id too many", "tensors.sample_ids.shape", "got 17 rows", |c| c.tensors[3] = integers("sample_ids", &[17], &[0; 17])),
    ("a text too few", "tensors.predicted_text.texts", "got 15 strings", |c| set(c, strings("predicted_text", &[N], &["a"; 15]))),
    ("texts as a table", "tensors.predicted_text.texts", "expected one string for each row", |c| set(c, strings("predicted_text", &[N, 1], &["a"; 16]))),
    ("a text of 4097 bytes", "tensors.reference_text.texts", "at most 4096", |c| { let mut t = strings("reference_text", &[N], &["a"; 16]); t.texts[4] = "x".repeat(4097); set(c, t) }),
    // Values.
    ("a NaN", "tensors.concept_activations", NOT_FINITE, |c| set(c, with_activation(f32::NAN))),
    ("a NaN with a payload", "tensors.concept_activations", NOT_FINITE, |c| set(c, with_activation(f32::from_bits(0xffc0_dead)))),
    ("an infinity", "tensors.concept_activations", NOT_FINITE, |c| set(c, with_activation(f32::INFINITY))),
    ("a negative infinity", "tensors.concept_activations", NOT_FINITE, |c| set(c, with_activation(f32::NEG_INFINITY))),
    ("a float16 NaN", "tensors.concept_activations", NOT_FINITE, |c| set(c, raw("concept_activations", DataType::Float16, &[N, 2], &0x7e00u16.to_le_bytes()))),
    ("a bfloat16 infinity", "tensors.concept_activations", NOT_FINITE, |c| set(c, raw("concept_activations", DataType::Bfloat16, &[N, 2], &0x7f80u16.to_le_bytes()))),
    ("a float64 infinity", "tensors.concept_activations", NOT_FINITE, |c| set(c, raw("concept_activations", DataType::Float64, &[N, 2], &f64::INFINITY.to_le_bytes()))),
    ("a NaN logit", "tensors.task_logits", NOT_FINITE, |c| set(c, raw("task_logits", DataType::Float32, &[N, 2], &f32::NAN.to_le_bytes()))),
    ("a NaN label", "tensors.concept_labels", "finite values; for unknown labels declare missing_concept_labels", |c| set(c, raw("concept_labels", DataType::Float32, &[N, 2], &f32::NAN.to_le_bytes()))),
    ("a NaN embedding", "tensors.concept_embeddings", "row 0 has a NaN", |c| set(c, raw("concept_embeddings", DataType::Float32, &[N, 2, 3], &f32::NAN.to_le_bytes()))),
    ("an infinitely distant part", "tensors.part_locations", "or NaN where not visible", |c| set(c, raw("part_locations", DataType::Float32, &[N, 1, 2], &f32::INFINITY.to_le_bytes()))),
    ("a task label of -1", "tensors.task_labels", "row 3 has -1, expected 0 to 65535", |c| set(c, with_label(-1))),
    ("a task label of 65536", "tensors.task_labels", "expected 0 to 65535", |c| set(c, with_label(65_536))),
    ("a task label of 2^63 - 1", "tensors.task_labels", "expected 0 to 65535", |c| set(c, with_label(i64::MAX))),
    ("an unsigned task label of 2^64 - 1", "tensors.task_labels", "expected 0 to 65535", |c| set(c, raw("task_labels", DataType::Uint64, &[N], &u64::MAX.to_le_bytes()))),
    ("a fractional task label", "tensors.task_labels", "row 5 has 0.5, expected class numbers", |c| set(c, raw("task_labels", DataType::Float32, &[N], &0.5f32.to_le_bytes()))),
    ("an enormous whole task label", "tensors.task_labels", "expected 0 to 65535", |c| set(c, raw("task_labels", DataType::Float64, &[N], &1e300f64.to_le_bytes()))),
    ("a concept label of 2 of a binary concept", "tensors.concept_labels", "for concept 'beak', expected 0 to 1", |c| set(c, raw("concept_labels", DataType::Int8, &[N, 2], &[2]))),
    ("a concept label of -1", "tensors.concept_labels", "expected 0 to 1; for unknown labels declare missing_concept_labels", |c| set(c, raw("concept_labels", DataType::Int32, &[N, 2], &(-1i32).to_le_bytes()))),
    ("concept labels of -1 and 1", "tensors.concept_labels", "if -1 means absent, recode it to 0 or pass signed_labels=True", |c| set(c, integers("concept_labels", &[N, 2], &[-1, 1].repeat(16)))),
    ("a fractional concept label", "tensors.concept_labels", "expected class numbers", |c| set(c, raw("concept_labels", DataType::Float32, &[N, 2], &0.25f32.to_le_bytes()))),
    ("a bool of 2", "tensors.concept_labels", "expected 0 to 1", |c| set(c, raw("concept_labels", DataType::Bool, &[N, 2], &[2]))),
    ("a flag of 3", "tensors.active_concepts", "expected 0 to 1", |c| set(c, raw("active_concepts", DataType::Uint8, &[N, 2], &[3]))),
    ("a prediction of -7", "tensors.task_predictions", "row 5 has -7", |c| set(c, raw("task_predictions", DataType::Int8, &[N], &[0xf9]))),
    ("an intervened prediction of -7", "tensors.intervened_task_predictions", "row 5 has -7", |c| set(c, raw("intervened_task_predictions", DataType::Int8, &[N], &[0xf9]))),
    ("an intervention prediction of -2", "tensors.intervention_predictions", "row 2 has -2, expected 0 to 65535 (classes), or -1 for none", |c| set(c, raw("intervention_predictions", DataType::Int8, &[N, 2], &[0xfe]))),
    ("interventions for four numbers of two concepts", "tensors.intervention_predictions.shape", "got [16, 4], expected 2 to 3 columns", |c| set(c, raw("intervention_predictions", DataType::Int8, &[N, 4], &[1]))),
    ("a label beyond the logits", "tensors.task_labels", "classes of task_logits", |c| { set(c, zeros("task_logits", &[N, 3])); set(c, with_label(3)) }),
    ("a prediction beyond the logits", "tensors.task_predictions", "classes of task_logits", |c| { set(c, zeros("task_logits", &[N, 3])); set(c, raw("task_predictions", DataType::Uint8, &[N], &[9])) }),
    ("a negative id", "tensors.sample_ids", "row 5 is negative", |c| set(c, raw("sample_ids", DataType::Int64, &[N], &(-1i64).to_le_bytes()))),
    // The chunk around them.
    ("sequence 0", "sequence", "expected at least 1", |c| c.sequence = 0),
    ("a NaN epoch", "epoch", "expected a finite number", |c| c.epoch = Some(f64::NAN)),
    ("an infinite epoch", "epoch", "expected a finite number", |c| c.epoch = Some(f64::INFINITY)),
    ("a negative epoch", "epoch", "got -1", |c| c.epoch = Some(-1.0)),
    ("a step of 2^63", "step", "expected at most 9223372036854775807", |c| c.step = 1 << 63),
    ("a step of 2^64 - 1", "step", "got 18446744073709551615", |c| c.step = u64::MAX),
    ("rank 1 of 1", "rank", "got 1, expected 0 to 0", |c| c.rank = 1),
    ("rank 2^32 - 1", "rank", "expected 0 to 0", |c| c.rank = u32::MAX),
    ("a first chunk numbered 1", "chunk", "got 1, expected 0", |c| c.chunk = 1),
    ("a row number too few", "row_numbers", "got 15 numbers, expected one for each of 16", |c| c.row_numbers = (0..15).collect()),
    ("a row number too many", "row_numbers", "got 17", |c| c.row_numbers = (0..17).collect()),
    ("a million row numbers", "row_numbers", "got 1000000", |c| c.row_numbers = vec![1; 1_000_000]),
    ("a first row of 2^64 - 1", "first_row", "to which all rows can be added", |c| c.first_row = u64::MAX),
];
