//! Reads one batch from a NumPy archive (`np.savez`) whose arrays are named like the protocol's tensors.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};

use crate::batch::{Batch, MAX_CLASS, NonFinite};
use crate::fault::{Fault, in_short};
use crate::name::MAX_NAME;
use crate::run::{ActivationColumns, ActivationKind, Concept, LabelKind, MAX_CONCEPTS, Run, RunConstants, RunFields};
use crate::sample::Column;
use crate::tensor::{DataType, Tensor, TensorName};

/// Arrays of an archive; one has a few dozen.
const MAX_ENTRIES: u64 = 1024;

/// Bytes of an array that is no tensor, such as a constant of the run: its numbers are copied, as 64-bit ones.
const MAX_CONSTANT_BYTES: usize = 64 << 20;

/// Longer headers are refused; a real one has a few hundred bytes.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// What the command line states about the arrays, before what the file does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// Of `concept_activations`.
    pub columns: Option<ActivationColumns>,
    /// The columns were learnt without labels, whatever their number.
    pub latents: bool,
    /// A concept label of −1 or NaN is unknown.
    pub missing_labels: bool,
}

/// The bytes that may be used.
pub struct Memory {
    pub limit: usize,
    pub used: usize,
}

impl Memory {
    /// Takes what an array needs, `None` if that cannot be counted; the fault names it.
    fn take(&mut self, name: &str, shape: &[u64], needs: Option<usize>) -> Result<(), Fault> {
        let total = needs.and_then(|needs| self.used.checked_add(needs));
        let total = total.ok_or_else(|| Fault::new(name, format!("has shape {shape:?}, which is too large")))?;
        if total > self.limit {
            let (needs, limit) = (total.div_ceil(1 << 20), self.limit >> 20);
            let before = if self.used > 0 { " with the arrays before it" } else { "" };
            let message = format!(
                "has shape {shape:?}, which needs {needs} MiB{before}, expected at most {limit}: see --memory-mib"
            );
            return Err(Fault::new(name, message));
        }
        self.used = total;
        Ok(())
    }
}

/// Reads `path` and derives the run's declaration from its arrays: k from their shapes, the activation kind from the
/// array `activation_kind` or, without it, from the values, and the label kinds from element types and values: floats that
/// are all class numbers are classes. Errors name the array.
///
/// Arrays that take more than `memory` bytes together, as a sample too, are refused before they are read.
pub fn read(path: &Path, layout: Layout, memory: &mut Memory) -> Result<(Run, Batch), Fault> {
    let arrays = read_arrays(path, memory)?;
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
            "cardinalities" => cardinalities = array.counts()?,
            "activation_kind" => kind = Some(activation_kind(&array)?),
            "activation_columns" => fields.activation_columns = activation_columns(&array)?,
            "latents" => fields.latents = Some(array.count()?),
            _ => set_constant(&mut fields.constants, &array)?,
        }
    }
    let (k, counted) = concept_count(&tensors, &cardinalities)?;
    for (what, len) in [("concept_names", names.len()), ("cardinalities", cardinalities.len())] {
        if len != 0 && len != k {
            return Err(Fault::new(
                what,
                format!("got {len} values, expected {k}, one for each concept of the other arrays"),
            ));
        }
    }
    fields.concepts = (0..k)
        .map(|i| Concept {
            name: names.get(i).cloned().unwrap_or_else(|| format!("c{i}")),
            cardinality: cardinalities.get(i).copied().unwrap_or_default(),
        })
        .collect();
    let find = |name| tensors.iter().find(|tensor: &&Tensor| tensor.name() == name);
    fields.missing_concept_labels = layout.missing_labels;
    let label_kind = |name, classes: &dyn Fn(usize) -> u32| match find(name) {
        Some(labels) if labels.dtype().is_float() && !holds_classes(labels, classes) => LabelKind::Continuous,
        _ => LabelKind::Class,
    };
    fields.concept_label_kind = label_kind(TensorName::ConceptLabels, &|i| fields.concepts[i].classes());
    fields.task_label_kind = label_kind(TensorName::TaskLabels, &|_| MAX_CLASS as u32 + 1);
    fields.activation_kind =
        kind.or_else(|| find(TensorName::ConceptActivations).map(kind_by_values)).unwrap_or_default();
    fields.activation_columns = layout.columns.unwrap_or(fields.activation_columns);
    if layout.latents {
        let columns = find(TensorName::ConceptActivations).and_then(|tensor| tensor.shape().get(1));
        // Wider arrays are refused, as the declaration has no such number.
        fields.latents = columns.map(|&columns| u32::try_from(columns).unwrap_or(u32::MAX));
    }
    let run = Run::try_from(fields).map_err(in_array_terms)?;
    let batch = Batch::new(tensors, &run, NonFinite::Reject).map_err(in_array_terms).map_err(|fault| {
        // Which of the two arrays is wrong is for the reader to say.
        match counted.filter(|name| fault.field.strip_suffix(".shape").is_some_and(|field| field != name.text())) {
            Some(name) => Fault::new(fault.field, format!("{}; {name} has {k} columns", fault.message)),
            None => fault,
        }
    })?;
    Ok((run, batch))
}

/// Whether floats are class numbers, column i below `classes(i)`. −1 and NaN are unknown labels, or refused later.
fn holds_classes(labels: &Tensor, classes: &dyn Fn(usize) -> u32) -> bool {
    let mut all = true;
    for row in 0..labels.rows() {
        let mut at = 0;
        labels.for_each_float(row, |value| {
            let class = value.fract() == 0.0 && value >= -1.0 && value < f64::from(classes(at));
            all &= class || value.is_nan();
            at += 1;
        });
    }
    all
}

/// Renames a fault's field from the protocol's terms to the array of the file.
fn in_array_terms(fault: Fault) -> Fault {
    let field = fault.field.as_str();
    let array = match field.strip_prefix("run.concepts[").and_then(|rest| rest.split_once("].")) {
        Some((_, "name")) => "concept_names",
        Some(_) => "cardinalities",
        None => ["tensors.", "run.constants.", "run."]
            .into_iter()
            .find_map(|prefix| field.strip_prefix(prefix))
            .unwrap_or(field),
    };
    // A fault of `tensors` means that the file has no tensor except sample ids.
    let array = if array == "tensors" { TensorName::SampleIds.text() } else { array };
    Fault::new(array, fault.message.replace("declare missing_concept_labels", "pass --missing-labels"))
}

/// One array, in row-major order.
struct Array {
    name: String,
    dtype: TypeChar,
    item_bytes: usize,
    shape: Vec<u64>,
    data: Vec<u8>,
}

fn read_arrays(path: &Path, memory: &mut Memory) -> Result<Vec<Array>, Fault> {
    let file_fault = |message: String| Fault::new(path.display().to_string(), message);
    let mut file = File::open(path).map_err(|e| file_fault(format!("cannot be opened: {e}")))?;
    // The directory is read as a whole, with some hundred bytes for each entry.
    let no_archive =
        |e: &dyn std::fmt::Display| file_fault(format!("is not an npz archive as np.savez writes it: {e}"));
    if let Some(entries) = entries(&mut file).map_err(|e| no_archive(&e))?.filter(|entries| *entries > MAX_ENTRIES) {
        return Err(file_fault(format!("has {entries} entries, expected at most {MAX_ENTRIES}")));
    }
    let mut archive = zip::ZipArchive::new(file).map_err(|e| no_archive(&e))?;
    let mut arrays = Vec::new();
    for at in 0..archive.len() {
        let mut entry =
            archive.by_index(at).map_err(|e| file_fault(format!("entry {at} of the archive cannot be read: {e}")))?;
        let entry_name = entry.name().map_err(|e| file_fault(format!("entry {at} has no readable name: {e}")))?;
        let entry_name = entry_name.into_owned();
        let Some(name) = entry_name.strip_suffix(".npy") else {
            if entry_name.is_empty() {
                return Err(file_fault(format!("entry {at} has no name, expected entries that end in .npy")));
            }
            return Err(Fault::new(in_short(&entry_name), "is not an array, expected entries that end in .npy"));
        };
        if name.len() > MAX_NAME {
            return Err(Fault::new(in_short(name), format!("is not a known array: its name has {} bytes", name.len())));
        }
        let size = entry.size();
        arrays.push(Array::read(name.to_owned(), &mut entry, size, memory)?);
    }
    if arrays.is_empty() {
        return Err(file_fault("holds no array".into()));
    }
    Ok(arrays)
}

/// The number of entries that the end of an archive states; `None` if there is no such end. The largest of what could be
/// taken for an end, since readers differ in which they take.
fn entries(file: &mut File) -> std::io::Result<Option<u64>> {
    const END: &[u8] = b"PK\x05\x06";
    const LARGE_END: &[u8] = b"PK\x06\x06";
    /// The longest end: 22 bytes and a comment, behind the 76 bytes of that of a large archive.
    const LONGEST: u64 = 76 + 22 + 65_535;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(LONGEST)))?;
    let mut tail = Vec::new();
    Read::by_ref(file).take(LONGEST).read_to_end(&mut tail)?;
    file.rewind()?;
    let count = |at: usize| {
        let rest = &tail[at..];
        if rest.starts_with(END) {
            // All ones: the count is in the end of a large archive.
            let count = rest.get(10..12).map(|count| u64::from(u16::from_le_bytes([count[0], count[1]])));
            return count.filter(|count| *count != 0xffff);
        }
        let count = rest.starts_with(LARGE_END).then(|| rest.get(32..40)?.try_into().ok()).flatten();
        count.map(u64::from_le_bytes)
    };
    let large = |at: usize| tail[at..].starts_with(END) && tail.get(at + 10..at + 12) == Some(&[0xff, 0xff]);
    let has_large = (0..tail.len()).any(|at| tail[at..].starts_with(LARGE_END));
    if !has_large && (0..tail.len()).any(large) {
        return Ok(Some(0xffff));
    }
    Ok((0..tail.len()).filter_map(count).max())
}

impl Array {
    /// Reads an array of an entry that states `size` bytes.
    fn read(name: String, mut reader: impl Read, size: u64, memory: &mut Memory) -> Result<Self, Fault> {
        let fault = |message: String| Fault::new(name.clone(), message);
        let (header, header_bytes) = read_header(&mut reader)
            .map_err(|e| fault(format!("has no readable npy header: {}", in_short(&e.to_string()))))?;
        let DType::Plain(kind) = header.dtype() else {
            return Err(fault("is a structured array, expected one plain element type".into()));
        };
        if kind.endianness() == Endianness::Big {
            return Err(fault(format!("has big-endian elements ({kind}), expected little-endian")));
        }
        let item_bytes = kind.num_bytes().filter(|_| !kind.uses_pickled_array());
        let item_bytes = item_bytes.filter(|&bytes| bytes > 0);
        let item_bytes =
            item_bytes.ok_or_else(|| fault(format!("has elements of type {kind}, expected plain numbers")))?;
        let shape = header.shape().to_vec();
        let elements = shape.iter().try_fold(1usize, |count, &dim| count.checked_mul(usize::try_from(dim).ok()?));
        let bytes = elements.and_then(|elements| elements.checked_mul(item_bytes));
        let is_text = [TypeChar::UnicodeStr, TypeChar::ByteStr].contains(&kind.type_char());
        let is_tensor = TensorName::parse(&name).is_some();
        let needs = || {
            let (elements, bytes) = (elements?, bytes?);
            // A column-major array is copied once; a tensor becomes a column of the sample.
            let copies = if header.order() == Order::Fortran { 2 } else { 1 };
            let of_element = if is_text { 2 * (size_of::<String>() + item_bytes) } else { size_of::<f64>() };
            bytes.checked_mul(copies)?.checked_add(elements.checked_mul(of_element)?)
        };
        memory.take(&name, &shape, needs())?;
        let bytes = bytes.unwrap_or(usize::MAX);
        if !is_tensor && bytes > MAX_CONSTANT_BYTES {
            return Err(fault(format!("has shape {shape:?}, which is too large for a constant")));
        }
        let stated = size.saturating_sub(header_bytes);
        if stated != bytes as u64 {
            let got = if stated > bytes as u64 { "more".to_owned() } else { stated.to_string() };
            return Err(fault(format!("got {got} bytes, expected {bytes} for shape {shape:?}")));
        }
        let mut data = Vec::new();
        data.try_reserve_exact(bytes + 1).map_err(|e| fault(format!("cannot be read: {e}")))?;
        // The archive may state another size than it has. Reads one byte more than expected, to detect a surplus.
        reader.take(bytes as u64 + 1).read_to_end(&mut data).map_err(|e| fault(format!("cannot be read: {e}")))?;
        if data.len() != bytes {
            let got = if data.len() > bytes { "more".to_owned() } else { data.len().to_string() };
            return Err(fault(format!("got {got} bytes, expected {bytes} for shape {shape:?}")));
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
                chars.map(char::from_u32).collect::<Option<String>>().ok_or_else(|| fault("is not valid text"))
            }
            TypeChar::ByteStr => {
                let end = item.iter().position(|&b| b == 0).unwrap_or(item.len());
                String::from_utf8(item[..end].to_vec()).map_err(|_| fault("is not valid UTF-8"))
            }
            _ => Err(fault("holds numbers, expected strings")),
        };
        self.data.chunks(self.item_bytes).map(decode).collect()
    }

    fn numbers(&self) -> Result<Vec<f64>, Fault> {
        if self.dtype == TypeChar::UnicodeStr || self.dtype == TypeChar::ByteStr {
            return Err(Fault::new(self.name.clone(), "holds strings, expected numbers"));
        }
        let count = (self.data.len() / self.item_bytes) as u64;
        if count == 0 {
            return Err(Fault::new(self.name.clone(), "is empty, expected numbers"));
        }
        let flat = Array { name: self.name.clone(), shape: vec![1, count], data: self.data.clone(), ..*self };
        // Any numeric tensor name will do for decoding; a fault is reported under this array's name.
        let decoded = flat.into_tensor(TensorName::TaskLogits);
        let tensor = decoded.map_err(|fault| Fault { field: self.name.clone(), ..fault })?;
        let mut numbers = Vec::new();
        tensor.for_each_float(0, |value| numbers.push(value));
        Ok(numbers)
    }

    /// The elements as whole numbers of at least 0.
    fn counts(&self) -> Result<Vec<u32>, Fault> {
        let count = |value: f64| match value as u32 {
            count if f64::from(count) == value => Ok(count),
            _ => {
                Err(Fault::new(self.name.clone(), format!("got {value}, expected whole numbers of 0 to {}", u32::MAX)))
            }
        };
        self.numbers()?.into_iter().map(count).collect()
    }

    /// The one element as a whole number of at least 0.
    fn count(&self) -> Result<u32, Fault> {
        match self.counts()?.as_slice() {
            [count] => Ok(*count),
            counts => Err(Fault::new(self.name.clone(), format!("got {} numbers, expected one", counts.len()))),
        }
    }
}

/// Reads a header, and returns how many bytes it had. Errors when its declared length or shape is implausible.
fn read_header(reader: &mut impl Read) -> std::io::Result<(NpyHeader, u64)> {
    let fault = |message: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, message);
    let mut bytes = vec![0; 10];
    reader.read_exact(&mut bytes)?;
    // The length has two bytes in version 1 and four in later versions.
    let mut length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    if bytes[6] > 1 {
        let mut high = [0; 2];
        reader.read_exact(&mut high)?;
        bytes.extend(high);
        length |= usize::from(u16::from_le_bytes(high)) << 16;
    }
    if length > MAX_HEADER_BYTES {
        return Err(fault("it is too long"));
    }
    let start = bytes.len();
    bytes.resize(start + length, 0);
    reader.read_exact(&mut bytes[start..])?;
    // The parser multiplies the dimensions without an overflow check.
    let text = String::from_utf8_lossy(&bytes[start..]);
    let shape = text.split_once("'shape'").map_or("", |(_, rest)| rest.split([')', ']']).next().unwrap_or_default());
    let dims = shape.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let product =
        dims.map(|digits| digits.parse::<u64>().ok()).try_fold(1u64, |product, dim| product.checked_mul(dim?));
    if product.is_none() {
        return Err(fault("its shape is too large"));
    }
    Ok((NpyHeader::from_reader(bytes.as_slice())?, bytes.len() as u64))
}

/// Reorders the elements of a column-major array in row-major order.
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

/// k, and the tensor whose columns are counted.
fn concept_count(tensors: &[Tensor], cardinalities: &[u32]) -> Result<(usize, Option<TensorName>), Fault> {
    use TensorName::{
        ActiveConcepts, ConceptActivations, ConceptEmbeddings, ConceptLabels, LocalizationMaps, LocalizationPeaks,
    };
    let columns = |name| Some((name, *tensors.iter().find(|t: &&Tensor| t.name() == name)?.shape().get(1)?));
    // Categorical concepts have several activation columns each.
    let known = || (!cardinalities.is_empty()).then_some((ConceptActivations, cardinalities.len()));
    let naming = [ConceptLabels, ConceptEmbeddings, ActiveConcepts, LocalizationMaps, LocalizationPeaks];
    let k = naming.into_iter().find_map(columns).or_else(known).or_else(|| columns(ConceptActivations));
    match k {
        Some((name, k)) if k > MAX_CONCEPTS => {
            Err(Fault::new(name.text(), format!("has {k} concepts, expected 1 to {MAX_CONCEPTS}")))
        }
        Some((name, k)) => Ok((k, Some(name))),
        // Text and image scores need no concepts, but a declaration needs at least one.
        None if tensors.iter().any(|t| t.shape().len() <= 2) => Ok((1, None)),
        None => Err(Fault::new("concept_activations", "is missing, and no other array gives the number of concepts")),
    }
}

/// The activation kind by its values: hard if all are integers (the rule in the paper authors' code), probability if all
/// are within [0, 1], otherwise logit. Monte-Carlo samples are averaged first, because their mean is what is scored.
fn kind_by_values(activations: &Tensor) -> ActivationKind {
    let (mut integral, mut in_unit) = (true, true);
    for row in 0..activations.rows() {
        let mut averaged = Column::for_tensor(activations, false);
        averaged.push(activations, row);
        for value in averaged.block(0..averaged.width()) {
            integral &= value.fract() == 0.0;
            in_unit &= (0.0..=1.0).contains(&value);
        }
        if !integral && !in_unit {
            break;
        }
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
            format!("got '{}', expected hard, probability, logit or continuous", other.unwrap_or_default()),
        )),
    }
}

fn activation_columns(array: &Array) -> Result<ActivationColumns, Fault> {
    let texts = array.texts()?;
    let text = texts.first().map_or("", String::as_str);
    ActivationColumns::parse(text).ok_or_else(|| {
        let expected = "expected one_per_concept or two_per_concept";
        Fault::new("activation_columns", format!("got '{}', {expected}", in_short(text)))
    })
}

/// The parts of each concept, from an array [k, p] of 0 and 1.
fn parts(array: &Array) -> Result<Vec<Vec<u32>>, Fault> {
    let (flags, shape) = (array.counts()?, &array.shape);
    match shape[..] {
        [_, parts] if flags.iter().all(|&flag| flag <= 1) => {
            let of_concept =
                |row: &[u32]| (0..).zip(row).filter(|(_, flag)| **flag == 1).map(|(part, _)| part).collect();
            Ok(flags.chunks(parts as usize).map(of_concept).collect())
        }
        _ => Err(Fault::new(
            array.name.clone(),
            format!("has shape {shape:?}, expected 0 and 1 for each concept and part, [k, p]"),
        )),
    }
}

fn set_constant(constants: &mut RunConstants, array: &Array) -> Result<(), Fault> {
    let one = || match array.numbers()?.as_slice() {
        [value] => Ok(Some(*value)),
        values => Err(Fault::new(array.name.clone(), format!("got {} numbers, expected one", values.len()))),
    };
    let size = || match array.counts()?.as_slice() {
        [height, width] => Ok(Some((*height, *width))),
        values => {
            Err(Fault::new(array.name.clone(), format!("got {} numbers, expected height and width", values.len())))
        }
    };
    match array.name.as_str() {
        "reference_task_accuracy" => constants.reference_task_accuracy = one()?,
        "concept_score_weight" => constants.concept_score_weight = one()?,
        "activity_threshold" => constants.activity_threshold = one()?,
        "active_top_k" => constants.active_top_k = Some(array.count()?),
        "clarity_weights" => constants.clarity_weights = array.numbers()?,
        "intervention_counts" => constants.intervention_counts = array.counts()?,
        "concept_weights" => constants.concept_weights = array.numbers()?,
        "head_weights" => constants.head_weights = array.numbers()?,
        "head_bias" => constants.head_bias = array.numbers()?,
        "image_size" => constants.image_size = size()?,
        "concept_parts" => constants.concept_parts = parts(array)?,
        "box_size" => constants.box_size = size()?,
        unknown => {
            let known: Vec<&str> = TensorName::ALL.iter().map(|name| name.text()).collect();
            return Err(Fault::new(
                unknown,
                format!("is not a known array, expected a constant of the run or one of {}", known.join(", ")),
            ));
        }
    }
    Ok(())
}
