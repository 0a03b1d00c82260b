//! Named tensors: the table of names, element types, and a tensor whose bytes match its shape.

mod elements;

use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::field_error::FieldError;

/// Maximum number of dimensions of a tensor.
pub const MAX_RANK: usize = 8;
/// Maximum length in bytes of a `predicted_text` or `reference_text` row.
pub const MAX_TEXT: usize = 4096;

/// Element type of a tensor on the wire: little-endian, row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum DataType {
    Float16,
    BFloat16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Bool,
    String,
}

impl DataType {
    /// All of them; strings are the last.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Size of one element in bytes; 0 for strings, which have no fixed size.
    pub const fn size(self) -> usize {
        match self {
            Self::Int8 | Self::UInt8 | Self::Bool => 1,
            Self::Float16 | Self::BFloat16 | Self::Int16 | Self::UInt16 => 2,
            Self::Float32 | Self::Int32 | Self::UInt32 => 4,
            Self::Float64 | Self::Int64 | Self::UInt64 => 8,
            Self::String => 0,
        }
    }

    pub const fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::BFloat16 | Self::Float32 | Self::Float64)
    }

    /// Whether this is a 16-bit float. Coarse values tie, which changes entropy estimates.
    pub const fn is_half(self) -> bool {
        matches!(self, Self::Float16 | Self::BFloat16)
    }

    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, Self::Bool | Self::String)
    }

    pub const fn is_unsigned(self) -> bool {
        matches!(self, Self::UInt8 | Self::UInt16 | Self::UInt32 | Self::UInt64)
    }

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Meaning of a tensor's elements, which determines the element types it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Floats; every value finite.
    Floats,
    /// Floats; NaN means "not visible".
    FloatsOrNan,
    /// Class numbers, or measured quantities where the run declares them.
    Labels,
    /// The same; -1, or NaN among quantities, means that the model gave none.
    LabelsOrNone,
    /// Booleans, or integers 0 and 1.
    Flags,
    /// Row identities, any non-negative integer.
    Ids,
    Texts,
}

impl Content {
    /// The elements, in the words of the protocol.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Floats | Self::FloatsOrNan => "float",
            Self::Labels => "integer or bool; float where the run declares measured labels",
            Self::LabelsOrNone => "integer, or float of a measured task; -1, or NaN: the head gave no prediction",
            Self::Flags => "bool, or integers 0 and 1",
            Self::Ids => "integers of at least 0",
            Self::Texts => "strings of at most 4096 bytes",
        }
    }
}

/// One dimension of a tensor's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// n, the number of rows of the batch.
    Rows,
    /// k, the number of concepts of the run.
    Concepts,
    /// K, the columns that the run's layout of activations has: k or more.
    Activations,
    /// t, the number of tasks of the run.
    Tasks,
    /// Any size, at least 1; the letter is used in messages.
    Any(char),
    Exactly(usize),
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rows => f.write_str("n"),
            Self::Concepts => f.write_str("k"),
            Self::Activations => f.write_str("K"),
            Self::Tasks => f.write_str("t"),
            Self::Any(letter) => write!(f, "{letter}"),
            Self::Exactly(size) => write!(f, "{size}"),
        }
    }
}

macro_rules! tensor_names {
    ($($variant:ident $text:literal $content:ident [$($dims:expr),*] $($remark:literal)?;)*) => {
        /// Every tensor a batch can carry. The same names are protobuf tensor names, npz arrays and Python keywords.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum TensorName { $($variant),* }

        impl TensorName {
            pub const ALL: &[TensorName] = &[$(TensorName::$variant),*];

            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            pub const fn content(self) -> Content {
                match self { $(Self::$variant => Content::$content),* }
            }

            /// The shapes it may have.
            pub const fn shapes(self) -> &'static [&'static [Dim]] {
                use Dim::*;
                match self { $(Self::$variant => const { &[$(&$dims),*] }),* }
            }

            /// A note on its values for senders; often empty.
            pub const fn remark(self) -> &'static str {
                match self { $(Self::$variant => concat!($($remark)?)),* }
            }
        }
    };
}

// The one table of tensors: the comment of `Tensor` in the protocol and the table of the Python package are generated
// from it (`UPDATE_DOCS=1 cargo test --test repository tensor_table`).
tensor_names! {
    ConceptActivations        "concept_activations"         Floats      [[Rows, Activations], [Rows, Activations, Any('m')]]
        "m Monte-Carlo samples are averaged";
    ConceptLabels             "concept_labels"              Labels      [[Rows, Concepts]];
    TaskLabels                "task_labels"                 Labels      [[Rows], [Rows, Tasks]];
    TaskPredictions           "task_predictions"            Labels      [[Rows], [Rows, Tasks]];
    TaskLogits                "task_logits"                 Floats      [[Rows, Any('l')], [Rows]]
        "one column, or [n]: the logit of class 1, or its probability where all are from 0 to 1; the columns of tasks side by side";
    IntervenedTaskPredictions "intervened_task_predictions" Labels      [[Rows], [Rows, Tasks]];
    InterventionPredictions   "intervention_predictions"    LabelsOrNone [[Rows, Any('m')], [Rows, Any('m'), Tasks]]
        "the task after each of the m numbers of concepts were set to their true values";
    WrongInterventionPredictions "wrong_intervention_predictions" LabelsOrNone [[Rows, Any('m')], [Rows, Any('m'), Tasks]]
        "the same with wrong values";
    ConceptEmbeddings         "concept_embeddings"          Floats      [[Rows, Concepts, Any('d')]];
    PositiveEmbeddings        "positive_embeddings"         Floats      [[Rows, Concepts, Any('d')]];
    NegativeEmbeddings        "negative_embeddings"         Floats      [[Rows, Concepts, Any('d')]];
    ActiveConcepts            "active_concepts"             Flags       [[Rows, Concepts]];
    ImageEmbeddings           "image_embeddings"            Floats      [[Rows, Any('D')]];
    PredictedTextEmbeddings   "predicted_text_embeddings"   Floats      [[Rows, Any('D')]];
    ReferenceTextEmbeddings   "reference_text_embeddings"   Floats      [[Rows, Any('D')]];
    PredictedText             "predicted_text"              Texts       [[Rows]];
    ReferenceText             "reference_text"              Texts       [[Rows]];
    LocalizationMaps          "localization_maps"           Floats      [[Rows, Concepts, Any('h'), Any('w')]]
        "reduced on arrival to each map's peak and centre of mass";
    LocalizationPeaks         "localization_peaks"          Floats      [[Rows, Concepts, Exactly(2)]] "row, column in pixels of the image";
    PartLocations             "part_locations"              FloatsOrNan [[Rows, Any('p'), Exactly(2)]] "row, column in pixels; NaN: not visible";
    DeepFeatures              "deep_features"               Floats      [[Rows, Any('d'), Any('h'), Any('w')]]
        "the last feature map; reduced on arrival to the similarities of its windows";
    ShallowFeatures           "shallow_features"            Floats      [[Rows, Any('D'), Any('h'), Any('w')]]
        "a shallow one folded to the same grid, as pixel_unshuffle does";
    CrossImageDifference      "cross_image_difference"      Floats      [[Rows, Any('d'), Any('h'), Any('w')]]
        "features of the augmented image less augmented features of the image; reduced on arrival to its length";
    SampleIds                 "sample_ids"                  Ids         [[Rows]] "the row's index in its data set";
    AblatedTaskPredictions    "ablated_task_predictions"    Labels      [[Rows], [Rows, Tasks]] "the task after all concepts were set to their means";
    Groups                    "groups"                      Labels      [[Rows]]
        "the group of each row, such as its hospital, among which leakage is divided";
}

impl TensorName {
    /// Whether it is about the task, so that each task has columns of its own.
    pub const fn is_of_task(self) -> bool {
        matches!(
            self,
            Self::TaskLabels
                | Self::TaskPredictions
                | Self::TaskLogits
                | Self::IntervenedTaskPredictions
                | Self::InterventionPredictions
                | Self::WrongInterventionPredictions
                | Self::AblatedTaskPredictions
        )
    }

    /// The error of a part of this tensor, such as its shape.
    pub fn fault(self, part: &str, message: impl Into<String>) -> FieldError {
        FieldError::new(format!("tensors.{self}.{part}"), message)
    }

    /// The error of this tensor's values, or of the tensor as a whole.
    pub fn fault_of_values(self, message: impl Into<String>) -> FieldError {
        FieldError::new(format!("tensors.{self}"), message)
    }

    /// The tensor of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.text() == text)
    }
}

impl std::fmt::Display for TensorName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

/// A tensor whose data has exactly the length that its shape and type require.
#[derive(Clone, Debug)]
pub struct Tensor {
    name: TensorName,
    dtype: DataType,
    shape: Vec<usize>,
    data: Data,
}

#[derive(Clone, Debug)]
enum Data {
    Bytes(Bytes),
    Texts(Vec<String>),
}

impl Tensor {
    /// A tensor of numbers. Errors when the shape is empty, has a zero, more than [`MAX_RANK`] dimensions, overflows,
    /// or does not match the length of `data`.
    pub fn numbers(name: TensorName, dtype: DataType, shape: &[u64], data: Bytes) -> Result<Self, FieldError> {
        let shape = checked_shape(name, shape)?;
        if dtype == DataType::String {
            return Err(name.fault("dtype", "string elements belong in `texts`, not in `data`"));
        }
        let bytes = shape.iter().try_fold(dtype.size(), |bytes, &dim| bytes.checked_mul(dim));
        match bytes {
            Some(expected) if expected == data.len() => Ok(Self { name, dtype, shape, data: Data::Bytes(data) }),
            Some(expected) => Err(name.fault(
                "data",
                format!("got {} bytes, expected {expected} for {} of shape {shape:?}", data.len(), dtype.name()),
            )),
            None => Err(name.fault("shape", format!("the product of {shape:?} overflows"))),
        }
    }

    /// A tensor of texts, one per row, each at most [`MAX_TEXT`] bytes. Errors otherwise.
    pub fn texts(name: TensorName, shape: &[u64], texts: Vec<String>) -> Result<Self, FieldError> {
        let shape = checked_shape(name, shape)?;
        if shape.len() != 1 || shape[0] != texts.len() {
            return Err(name.fault(
                "texts",
                format!("got {} strings with shape {shape:?}, expected one string for each row", texts.len()),
            ));
        }
        if let Some((row, text)) = texts.iter().enumerate().find(|(_, text)| text.len() > MAX_TEXT) {
            return Err(name.fault("texts", format!("row {row} has {} bytes, expected at most {MAX_TEXT}", text.len())));
        }
        Ok(Self { name, dtype: DataType::String, shape, data: Data::Texts(texts) })
    }

    pub fn name(&self) -> TensorName {
        self.name
    }

    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub fn rows(&self) -> usize {
        self.shape[0]
    }

    /// Number of elements in one row.
    pub fn width(&self) -> usize {
        self.shape[1..].iter().product()
    }

    /// Bytes this tensor holds in memory.
    pub fn bytes(&self) -> usize {
        match &self.data {
            Data::Bytes(bytes) => bytes.len(),
            Data::Texts(texts) => texts.iter().map(|text| text.len() + size_of::<String>()).sum(),
        }
    }

    pub fn text(&self, row: usize) -> &str {
        match &self.data {
            Data::Texts(texts) => &texts[row],
            Data::Bytes(_) => "",
        }
    }

    fn row_bytes(&self, row: usize) -> &[u8] {
        self.rows_bytes(row..row + 1)
    }

    fn rows_bytes(&self, rows: Range<usize>) -> &[u8] {
        let stride = self.width() * self.dtype.size();
        match &self.data {
            Data::Bytes(bytes) => &bytes[rows.start * stride..rows.end * stride],
            Data::Texts(_) => &[],
        }
    }

    /// Bytes from row `row` to the end; empty for texts.
    fn bytes_from(&self, row: usize) -> &[u8] {
        match &self.data {
            Data::Bytes(bytes) => &bytes[row * self.width() * self.dtype.size()..],
            Data::Texts(_) => &[],
        }
    }
}

fn checked_shape(name: TensorName, shape: &[u64]) -> Result<Vec<usize>, FieldError> {
    if shape.is_empty() || shape.len() > MAX_RANK {
        return Err(name.fault("shape", format!("got {} dimensions, expected 1 to {MAX_RANK}", shape.len())));
    }
    if shape.contains(&0) {
        return Err(name.fault("shape", format!("got {shape:?}, expected every dimension to be at least 1")));
    }
    let sizes: Result<Vec<usize>, _> = shape.iter().map(|&dim| usize::try_from(dim)).collect();
    sizes.map_err(|_| name.fault("shape", format!("{shape:?} does not fit in memory")))
}
