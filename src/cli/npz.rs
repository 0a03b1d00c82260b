//! Reads a NumPy archive (`np.savez`) whose arrays carry the tensor names, and makes one batch of it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};

use crate::batch::{Batch, NonFinite};
use crate::fault::Fault;
use crate::run::{ActivationKind, Concept, LabelKind, Run, RunConstants, RunFields};
use crate::sample::Column;
use crate::tensor::{DataType, Tensor, TensorName};

/// Arrays larger than this are refused: a broken header must not reserve the machine's memory.
const MAX_ARRAY_BYTES: usize = 1 << 36;

/// Reads `path`. The declaration is made from the arrays: k from their shapes, the activation kind from
/// `activation_kind` or else from the values, label kinds from the element types.
pub fn read(path: &Path) -> Result<(Run, Batch), Fault> {
    let arrays = read_arrays(path)?;
    let mut fields = RunFields { name: "file".into(), ..RunFields::default() };
    let mut tensors = Vec::new();
    let mut names = Vec::new();
    let mut cardinalities = Vec::new();
    let mut kind = None;
    for array in arrays {
        if let Some(name) = TensorName::parse(&array.name) {
            tensors.push(array.into_tensor(name)?);
            continue;
        }
        match array.name.as_str() {
            "concept_names" => names = array.texts()?,
            "cardinalities" => cardinalities = array.sizes()?,
            "activation_kind" => kind = Some(activation_kind(&array)?),
            _ => set_constant(&mut fields.constants, &array)?,
        }
    }
    let k = concept_count(&tensors, &cardinalities)?;
    for (what, len) in [("concept_names", names.len()), ("cardinalities", cardinalities.len())] {
        if len != 0 && len != k {
            return Err(Fault::new(what, format!("{len} values came, the other arrays have {k} concepts")));
        }
    }
    fields.concepts = (0..k)
        .map(|i| Concept {
            name: names.get(i).cloned().unwrap_or_else(|| format!("c{i}")),
            cardinality: cardinalities.get(i).copied().unwrap_or(0),
        })
        .collect();
    let find = |name| tensors.iter().find(|tensor: &&Tensor| tensor.name() == name);
    let label_kind = |name| match find(name) {
        Some(labels) if labels.dtype().is_float() => LabelKind::Continuous,
        _ => LabelKind::Class,
    };
    fields.concept_label_kind = label_kind(TensorName::ConceptLabels);
    fields.task_label_kind = label_kind(TensorName::TaskLabels);
    fields.activation_kind = kind.or_else(|| find(TensorName::ConceptActivations).map(look)).unwrap_or_default();
    let run = Run::try_from(fields)?;
    let batch = Batch::new(tensors, &run, NonFinite::Reject).map_err(in_array_terms)?;
    Ok((run, batch))
}

/// A file has arrays, not protocol fields.
fn in_array_terms(fault: Fault) -> Fault {
    let field = fault.field.strip_prefix("tensors.").unwrap_or(&fault.field).to_owned();
    Fault { field, ..fault }
}

/// One array, in row-major order.
struct Array {
    name: String,
    dtype: TypeChar,
    item_bytes: usize,
    shape: Vec<u64>,
    data: Vec<u8>,
}

fn read_arrays(path: &Path) -> Result<Vec<Array>, Fault> {
    let file_fault = |message: String| Fault::new(path.display().to_string(), message);
    let file = File::open(path).map_err(|e| file_fault(format!("cannot be opened: {e}")))?;
    let mut archive =
        zip::ZipArchive::new(file).map_err(|e| file_fault(format!("is no npz archive, as np.savez writes it: {e}")))?;
    let mut arrays = Vec::new();
    for at in 0..archive.len() {
        let mut entry =
            archive.by_index(at).map_err(|e| file_fault(format!("entry {at} of the archive cannot be read: {e}")))?;
        let entry_name = entry.name().map_err(|e| file_fault(format!("entry {at} has no readable name: {e}")))?;
        let entry_name = entry_name.into_owned();
        let Some(name) = entry_name.strip_suffix(".npy") else {
            return Err(Fault::new(entry_name, "is no array, expected entries that end in .npy"));
        };
        arrays.push(Array::read(name.to_owned(), &mut entry)?);
    }
    Ok(arrays)
}

impl Array {
    fn read(name: String, mut reader: impl Read) -> Result<Self, Fault> {
        let fault = |message: String| Fault::new(name.clone(), message);
        let header =
            NpyHeader::from_reader(&mut reader).map_err(|e| fault(format!("has no readable npy header: {e}")))?;
        let DType::Plain(kind) = header.dtype() else {
            return Err(fault("is a structured array, expected one plain element type".into()));
        };
        if kind.endianness() == Endianness::Big {
            return Err(fault(format!("has big-endian elements ({kind}), expected little-endian")));
        }
        let item_bytes = kind.num_bytes().filter(|_| !kind.uses_pickled_array());
        let item_bytes =
            item_bytes.ok_or_else(|| fault(format!("has elements of type {kind}, expected plain numbers")))?;
        let shape = header.shape().to_vec();
        let bytes = shape.iter().try_fold(item_bytes, |bytes, &dim| bytes.checked_mul(usize::try_from(dim).ok()?));
        let bytes = bytes.filter(|&bytes| bytes <= MAX_ARRAY_BYTES);
        let bytes = bytes.ok_or_else(|| fault(format!("has shape {shape:?}, which is too large")))?;
        let mut data = Vec::new();
        // One byte more than expected is asked for, so that a surplus shows.
        reader.take(bytes as u64 + 1).read_to_end(&mut data).map_err(|e| fault(format!("cannot be read: {e}")))?;
        if data.len() != bytes {
            let came = if data.len() > bytes { "more".to_owned() } else { data.len().to_string() };
            return Err(fault(format!("has {came} bytes, its shape {shape:?} asks for {bytes}")));
        }
        if header.order() == Order::Fortran {
            data = to_row_major(&data, &shape, item_bytes);
        }
        Ok(Self { name, dtype: kind.type_char(), item_bytes, shape, data })
    }

    fn into_tensor(self, name: TensorName) -> Result<Tensor, Fault> {
        if self.dtype == TypeChar::UnicodeStr || self.dtype == TypeChar::ByteStr {
            let texts = self.texts()?;
            return Tensor::texts(name, &self.shape, texts).map_err(in_array_terms);
        }
        let dtype = match (self.dtype, self.item_bytes) {
            (TypeChar::Float, 2) => DataType::Float16,
            (TypeChar::Float, 4) => DataType::Float32,
            (TypeChar::Float, 8) => DataType::Float64,
            (TypeChar::Int, 1) => DataType::Int8,
            (TypeChar::Int, 2) => DataType::Int16,
            (TypeChar::Int, 4) => DataType::Int32,
            (TypeChar::Int, 8) => DataType::Int64,
            (TypeChar::Uint, 1) => DataType::UInt8,
            (TypeChar::Uint, 2) => DataType::UInt16,
            (TypeChar::Uint, 4) => DataType::UInt32,
            (TypeChar::Uint, 8) => DataType::UInt64,
            (TypeChar::Bool, 1) => DataType::Bool,
            (kind, bytes) => {
                let message = format!("has {bytes}-byte elements of kind {kind:?}, expected float, int, uint or bool");
                return Err(Fault::new(self.name, message));
            }
        };
        Tensor::numbers(name, dtype, &self.shape, self.data.into()).map_err(in_array_terms)
    }

    fn texts(&self) -> Result<Vec<String>, Fault> {
        let fault = |message: &str| Fault::new(self.name.clone(), message);
        let decode = |item: &[u8]| match self.dtype {
            TypeChar::UnicodeStr => {
                let chars = item.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c)).take_while(|&c| c != 0);
                chars.map(char::from_u32).collect::<Option<String>>().ok_or_else(|| fault("is no valid text"))
            }
            TypeChar::ByteStr => {
                let end = item.iter().position(|&b| b == 0).unwrap_or(item.len());
                String::from_utf8(item[..end].to_vec()).map_err(|_| fault("is no valid UTF-8"))
            }
            _ => Err(fault("holds numbers, expected strings")),
        };
        if self.item_bytes == 0 {
            return Ok(vec![String::new(); self.shape.iter().product::<u64>() as usize]);
        }
        self.data.chunks(self.item_bytes).map(decode).collect()
    }

    /// Numbers that count something.
    fn sizes(&self) -> Result<Vec<u32>, Fault> {
        let size = |value: f64| {
            let whole = value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value);
            let fault = || Fault::new(self.name.clone(), format!("{value} came, expected whole numbers, 0 or more"));
            if whole { Ok(value as u32) } else { Err(fault()) }
        };
        self.numbers()?.into_iter().map(size).collect()
    }

    fn numbers(&self) -> Result<Vec<f64>, Fault> {
        let count = self.shape.iter().product::<u64>();
        let flat = Array { name: self.name.clone(), shape: vec![1, count], data: self.data.clone(), ..*self };
        // Any numeric tensor name serves to decode the elements; a fault is this array's all the same.
        let decoded = match self.dtype {
            TypeChar::UnicodeStr | TypeChar::ByteStr => Err(Fault::new("", "holds strings, expected numbers")),
            _ => flat.into_tensor(TensorName::TaskLogits),
        };
        let tensor = decoded.map_err(|fault| Fault { field: self.name.clone(), ..fault })?;
        let mut numbers = Vec::new();
        tensor.for_each_float(0, |value| numbers.push(value));
        Ok(numbers)
    }
}

/// Elements of a column-major array in row-major order.
fn to_row_major(data: &[u8], shape: &[u64], item_bytes: usize) -> Vec<u8> {
    let dims: Vec<usize> = shape.iter().map(|&dim| dim as usize).collect();
    let mut index = vec![0; dims.len()];
    let mut ordered = Vec::with_capacity(data.len());
    for _ in 0..data.len() / item_bytes.max(1) {
        let (mut at, mut stride) = (0, 1);
        for (i, dim) in index.iter().zip(&dims) {
            at += i * stride;
            stride *= dim;
        }
        ordered.extend_from_slice(&data[at * item_bytes..(at + 1) * item_bytes]);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    ordered
}

fn concept_count(tensors: &[Tensor], cardinalities: &[u32]) -> Result<usize, Fault> {
    use TensorName::{ActiveConcepts, ConceptActivations, ConceptEmbeddings, ConceptLabels, LocalizationMaps};
    if !cardinalities.is_empty() {
        return Ok(cardinalities.len());
    }
    let naming = [ConceptLabels, ConceptActivations, ConceptEmbeddings, ActiveConcepts, LocalizationMaps];
    let k = naming.iter().find_map(|name| tensors.iter().find(|t| t.name() == *name)?.shape().get(1).copied());
    match k {
        Some(k) => Ok(k),
        // Text and image scores need no concepts; a declaration needs one.
        None if tensors.iter().any(|t| t.shape().len() <= 2) => Ok(1),
        None => Err(Fault::new("concept_activations", "is missing, and no other array tells the concepts")),
    }
}

/// Hard when every value is an integer (as the paper's authors decide), probability within [0, 1], else logit. Of
/// Monte-Carlo samples the mean is looked at: it is what gets scored.
fn look(activations: &Tensor) -> ActivationKind {
    let mut averaged = Column::for_tensor(activations, false);
    (0..activations.rows()).for_each(|row| averaged.push(activations, row));
    let (mut integral, mut in_unit) = (true, true);
    for value in averaged.block(0..averaged.width()) {
        integral &= value.fract() == 0.0;
        in_unit &= (0.0..=1.0).contains(&value);
    }
    match (integral, in_unit) {
        (true, _) => ActivationKind::Hard,
        (false, true) => ActivationKind::Probability,
        (false, false) => ActivationKind::Logit,
    }
}

fn activation_kind(array: &Array) -> Result<ActivationKind, Fault> {
    match array.texts()?.first().map(String::as_str) {
        Some("hard") => Ok(ActivationKind::Hard),
        Some("probability") => Ok(ActivationKind::Probability),
        Some("logit") => Ok(ActivationKind::Logit),
        Some("continuous") => Ok(ActivationKind::Continuous),
        other => Err(Fault::new(
            "activation_kind",
            format!("'{}' came, expected hard, probability, logit or continuous", other.unwrap_or_default()),
        )),
    }
}

fn set_constant(constants: &mut RunConstants, array: &Array) -> Result<(), Fault> {
    let one = || match array.numbers()?.as_slice() {
        [value] => Ok(Some(*value)),
        values => Err(Fault::new(array.name.clone(), format!("{} numbers came, expected one", values.len()))),
    };
    let size = || match array.sizes()?.as_slice() {
        [height, width] => Ok(Some((*height, *width))),
        values => {
            Err(Fault::new(array.name.clone(), format!("{} numbers came, expected height and width", values.len())))
        }
    };
    match array.name.as_str() {
        "reference_task_accuracy" => constants.reference_task_accuracy = one()?,
        "concept_score_weight" => constants.concept_score_weight = one()?,
        "concept_weights" => constants.concept_weights = array.numbers()?,
        "head_weights" => constants.head_weights = array.numbers()?,
        "image_size" => constants.image_size = size()?,
        "box_size" => constants.box_size = size()?,
        unknown => {
            let known: Vec<&str> = TensorName::ALL.iter().map(|name| name.text()).collect();
            return Err(Fault::new(unknown, format!("is no known array; tensors are {}", known.join(", "))));
        }
    }
    Ok(())
}
