//! Parts as bytes, which sidecars send and workers read.
//!
//! ```text
//! "cwpart"  format u16  checksum u64  content           integers little-endian; `var` is LEB128 of at most 64 bits
//! content:  tensors u64                                 hash of the names of all tensors, whose places stand for them
//!           step var, N var, seed u64, world size var
//!           flags u8                                    epoch, cut-off, backlog, schema, ids are hashes, image size
//!           [epoch f64] [cut-off u64]
//!           offered, repeated, taken, stated, held back: var each
//!           ranks var, then each rank less the one before it, var
//!           [tensors var, then for each: place u8, element type u8, dimensions var, each var]
//!           [image height var, width var]
//!           rows var, clients var, each client u64
//!           of each row: [id less the one before it, var] place of its client var, sequence var, row var, arrivals var
//!           where there are rows, of each tensor but `sample_ids`: form u8, values row by row
//! ```
//!
//! Ids that are the hash of their origin are not written. Class numbers take as many bytes as the largest needs. Lengths
//! are compared with the bytes that are left before memory is taken, so that a part takes at most some dozens of bytes for
//! each byte of its length, whatever they say.

use std::collections::{BTreeMap, HashMap};

use super::Part;
use super::check::MOST_ROW_BYTES;
use crate::batch::{MOST_CELLS, Schema};
use crate::fault::Fault;
use crate::run::MAX_WORLD_SIZE;
use crate::sample::bottom_k::Sampling;
use crate::sample::checksum::Checksum;
use crate::sample::column::{Column, Values};
use crate::sample::priority::{Origin, priority};
use crate::sample::rows::Rows;
use crate::step::{Epoch, Rank, Step};
use crate::tensor::{Content, DataType, MAX_TEXT, TensorName};

const MARK: &[u8; 6] = b"cwpart";
/// Changes whenever the content has another form.
const FORMAT: u16 = 1;
const HEAD: usize = MARK.len() + 2 + 8;

const EPOCH: u8 = 1;
const CUTOFF: u8 = 2;
const BACKLOG: u8 = 4;
const SCHEMA: u8 = 8;
const HASHED: u8 = 16;
const IMAGE: u8 = 32;

/// Forms of a column's values. A form of a column of which rows came as 16-bit floats has this bit, too.
const HALF: u8 = 128;
const FLOAT32: u8 = 0;
const FLOAT64: u8 = 1;
const INT8: u8 = 2;
const INT16: u8 = 3;
const INT32: u8 = 4;
const TEXT: u8 = 5;

impl Part {
    /// This part as bytes, the same for equal parts.
    pub fn to_bytes(&self) -> Vec<u8> {
        let values = self.rows.columns.values().map(Column::bytes).sum::<usize>();
        let mut to = Vec::with_capacity(HEAD + 256 + 16 * self.rows() + values);
        to.extend_from_slice(MARK);
        to.extend_from_slice(&FORMAT.to_le_bytes());
        to.extend_from_slice(&[0; 8]);
        self.write(&mut to);
        let sum = Checksum::PART.of(&to[HEAD..]);
        to[HEAD - 8..HEAD].copy_from_slice(&sum.to_le_bytes());
        to
    }

    fn write(&self, to: &mut Vec<u8>) {
        let rows = &self.rows;
        let hashed = rows.ids.iter().zip(&rows.origins).all(|(id, origin)| *id == origin.row_id());
        let image = rows.columns.values().find_map(Column::image_size);
        let flags = [
            (EPOCH, self.epoch.is_some()),
            (CUTOFF, self.cutoff.is_some()),
            (BACKLOG, self.backlog),
            (SCHEMA, self.schema.is_some()),
            (HASHED, hashed),
            (IMAGE, image.is_some()),
        ];
        to.extend(Checksum::PART.of_tensors().to_le_bytes());
        var(to, self.step.get());
        var(to, self.sampling.rows as u64);
        to.extend(self.sampling.seed.to_le_bytes());
        var(to, self.world_size.into());
        to.push(flags.iter().filter(|(_, set)| *set).map(|(flag, _)| flag).sum());
        to.extend(self.epoch.iter().flat_map(|epoch| epoch.get().to_le_bytes()));
        to.extend(self.cutoff.iter().flat_map(|cutoff| cutoff.to_le_bytes()));
        [self.offered, self.repeated, self.taken, self.stated, self.held_back].into_iter().for_each(|n| var(to, n));
        var(to, self.ended.len() as u64);
        gaps(to, self.ended.iter().map(|rank| rank.get().into()));
        if let Some(schema) = &self.schema {
            var(to, schema.rows().count() as u64);
            for (name, dtype, dims) in schema.rows() {
                // Both tables are shorter than 256.
                to.extend([place(TensorName::ALL, &name), place(&DataType::ALL, &dtype)]);
                var(to, dims.len() as u64);
                dims.iter().for_each(|&dim| var(to, dim as u64));
            }
        }
        if let Some((height, width)) = image {
            var(to, height.into());
            var(to, width.into());
        }
        write_rows(to, rows, hashed);
        rows.columns.values().for_each(|column| write_values(to, column));
    }

    /// The part that these bytes are. Errors, naming the field, when they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Part, Fault> {
        let (head, content) = bytes.split_at_checked(HEAD).ok_or_else(|| too_short("part"))?;
        let (mark, rest) = head.split_at(MARK.len());
        let (format, sum) = rest.split_at(2);
        if mark != MARK {
            return Err(Fault::new("part", "got other bytes, expected a part of a pass"));
        }
        if format != FORMAT.to_le_bytes() {
            let got = u16::from_le_bytes([format[0], format[1]]);
            return Err(Fault::new("part.format", format!("got {got}, expected {FORMAT}: update the older program")));
        }
        if sum != Checksum::PART.of(content).to_le_bytes() {
            return Err(Fault::new("part.checksum", "got one that does not match the content"));
        }
        let mut from = Reader { left: content };
        let part = read(&mut from)?;
        match from.left.len() {
            0 => Ok(part),
            more => Err(Fault::new("part", format!("got {more} bytes beyond its end"))),
        }
    }
}

fn place<T: PartialEq>(table: &[T], entry: &T) -> u8 {
    table.iter().position(|other| other == entry).unwrap_or_default() as u8
}

fn var(to: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        to.push(value as u8 | 128);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Ascending numbers, each less the one before it.
fn gaps(to: &mut Vec<u8>, numbers: impl Iterator<Item = u64>) {
    let mut before = 0;
    for number in numbers {
        var(to, number - before);
        before = number;
    }
}

fn write_rows(to: &mut Vec<u8>, rows: &Rows, hashed: bool) {
    let mut clients: Vec<u64> = rows.origins.iter().map(|origin| origin.client).collect();
    clients.sort_unstable();
    clients.dedup();
    let places: HashMap<u64, u64> = clients.iter().copied().zip(0..).collect();
    var(to, rows.len() as u64);
    var(to, clients.len() as u64);
    to.extend(clients.iter().flat_map(|client| client.to_le_bytes()));
    let mut before = 0;
    for (row, origin) in rows.origins.iter().enumerate() {
        if !hashed {
            var(to, rows.ids[row] - before);
            before = rows.ids[row];
        }
        for number in [places[&origin.client], origin.sequence, origin.row, rows.arrivals[row]] {
            var(to, number);
        }
    }
}

fn write_values(to: &mut Vec<u8>, column: &Column) {
    let half = if column.is_half() { HALF } else { 0 };
    match column.values() {
        Values::Float32(values) => {
            to.push(FLOAT32 | half);
            to.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Values::Float64(values) => {
            to.push(FLOAT64 | half);
            to.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Values::Integer(values) => {
            if values.iter().all(|&value| i8::try_from(value).is_ok()) {
                to.push(INT8 | half);
                to.extend(values.iter().map(|&value| value as u8));
            } else if values.iter().all(|&value| i16::try_from(value).is_ok()) {
                to.push(INT16 | half);
                to.extend(values.iter().flat_map(|&value| (value as i16).to_le_bytes()));
            } else {
                to.push(INT32 | half);
                to.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
        }
        Values::Text(texts) => {
            to.push(TEXT | half);
            for text in texts {
                var(to, text.len() as u64);
                to.extend_from_slice(text.as_bytes());
            }
        }
    }
}

/// The bytes that are not yet read.
struct Reader<'a> {
    left: &'a [u8],
}

fn too_short(field: &str) -> Fault {
    Fault::new(field, "is cut off")
}

impl<'a> Reader<'a> {
    fn take(&mut self, field: &str, bytes: usize) -> Result<&'a [u8], Fault> {
        let (taken, left) = self.left.split_at_checked(bytes).ok_or_else(|| too_short(field))?;
        self.left = left;
        Ok(taken)
    }

    fn byte(&mut self, field: &str) -> Result<u8, Fault> {
        Ok(self.take(field, 1)?[0])
    }

    fn fixed(&mut self, field: &str) -> Result<u64, Fault> {
        let bytes = self.take(field, 8)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn var(&mut self, field: &str) -> Result<u64, Fault> {
        let mut number = 0;
        for at in 0..10 {
            let byte = self.byte(field)?;
            let bits = u64::from(byte & 127);
            // The tenth byte has one bit, and the last one is not 0 unless it is the only one.
            if (at == 9 && byte > 1) || (at > 0 && byte == 0) {
                break;
            }
            number |= bits << (7 * at);
            if byte < 128 {
                return Ok(number);
            }
        }
        Err(Fault::new(field, "got no integer of at most 64 bits"))
    }

    fn var32(&mut self, field: &str) -> Result<u32, Fault> {
        let number = self.var(field)?;
        u32::try_from(number).map_err(|_| Fault::new(field, format!("got {number}, expected at most {}", u32::MAX)))
    }

    /// The number of entries that follow, each of which takes that many bytes or more.
    fn count(&mut self, field: &str, bytes_each: usize) -> Result<usize, Fault> {
        let count = self.var(field)?;
        let most = self.left.len() / bytes_each;
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => {
                Err(Fault::new(field, format!("got {count} entries, expected at most {most} in the bytes that follow")))
            }
        }
    }

    /// The bytes of so many entries.
    fn entries(&mut self, field: &str, count: usize, bytes_each: usize) -> Result<&'a [u8], Fault> {
        self.take(field, count.checked_mul(bytes_each).ok_or_else(|| too_short(field))?)
    }

    /// Strictly ascending numbers of 64 bits; the first may be 0.
    fn next_after(&mut self, field: &str, before: Option<u64>) -> Result<u64, Fault> {
        let gap = self.var(field)?;
        let number = before.unwrap_or(0).checked_add(gap).filter(|_| gap > 0 || before.is_none());
        number.ok_or_else(|| Fault::new(field, "got numbers that do not ascend"))
    }
}

fn read(from: &mut Reader) -> Result<Part, Fault> {
    if from.fixed("part.tensors")? != Checksum::PART.of_tensors() {
        return Err(Fault::new(
            "part.tensors",
            "got those of another version, expected the same version of the program",
        ));
    }
    let step = Step::new(from.var("part.step")?)?;
    let most = from.var("part.sampling.rows")?;
    if !(1..=1 << 31).contains(&most) {
        return Err(Fault::new("part.sampling.rows", format!("got {most}, expected 1 to 2^31")));
    }
    let sampling = Sampling { rows: most as usize, seed: from.fixed("part.sampling.seed")? };
    let world_size = from.var32("part.world_size")?;
    if !(1..=MAX_WORLD_SIZE).contains(&world_size) {
        return Err(Fault::new("part.world_size", format!("got {world_size}, expected 1 to {MAX_WORLD_SIZE}")));
    }
    let flags = from.byte("part.flags")?;
    if flags & !(EPOCH | CUTOFF | BACKLOG | SCHEMA | HASHED | IMAGE) != 0 {
        return Err(Fault::new("part.flags", format!("got {flags}, expected those of this format")));
    }
    let has = |flag| flags & flag != 0;
    let epoch = match has(EPOCH) {
        true => Some(Epoch::new(f64::from_bits(from.fixed("part.epoch")?))?),
        false => None,
    };
    let cutoff = if has(CUTOFF) { Some(from.fixed("part.cutoff")?) } else { None };
    let mut counts = [0; 5];
    for (count, field) in counts.iter_mut().zip(["offered", "repeated", "taken", "stated", "held_back"]) {
        *count = from.var(&format!("part.{field}"))?;
    }
    let [offered, repeated, taken, stated, held_back] = counts;
    let mut ended: Vec<Rank> = Vec::with_capacity(from.count("part.ended", 1)?);
    for _ in 0..ended.capacity() {
        let rank = from.next_after("part.ended", ended.last().map(|rank| rank.get().into()))?;
        ended.push(Rank::of(u32::try_from(rank).unwrap_or(u32::MAX), world_size)?);
    }
    let schema = if has(SCHEMA) { Some(read_schema(from)?) } else { None };
    let image = match has(IMAGE) {
        true => Some((from.var32("part.image_size")?, from.var32("part.image_size")?)),
        false => None,
    };
    let mut rows = read_rows(from, has(HASHED))?;
    let arrived = rows.arrivals.iter().try_fold(0, |sum: u64, n| sum.checked_add(*n));
    if rows.len() > sampling.rows || arrived.is_none_or(|arrived| arrived > offered) {
        let expected = format!("expected at most {most} of {offered} that arrived");
        return Err(Fault::new("part.rows", format!("got {} of {} arrivals, {expected}", rows.len(), rows.arrivals())));
    }
    if let Some(cutoff) = cutoff
        && rows.ids.iter().any(|&id| priority(sampling.seed, id) > cutoff)
    {
        return Err(Fault::new("part.rows", "got rows beyond the cut-off"));
    }
    if !rows.ids.is_empty() {
        let schema =
            schema.as_ref().ok_or_else(|| Fault::new("part.schema", "is missing, expected that of its rows"))?;
        for (name, _, dims) in schema.rows().filter(|(name, _, _)| *name != TensorName::SampleIds) {
            rows.columns.insert(name, read_values(from, name, dims, rows.ids.len())?.at_image_size(image));
        }
    }
    let backlog = has(BACKLOG);
    Ok(Part {
        step,
        sampling,
        world_size,
        epoch,
        schema,
        ended,
        cutoff,
        offered,
        repeated,
        taken,
        stated,
        held_back,
        backlog,
        rows,
    })
}

/// The tensors ascend, have a number of dimensions that their names allow, and rows of at most [`MOST_ROW_BYTES`].
fn read_schema(from: &mut Reader) -> Result<Schema, Fault> {
    let mut tensors = BTreeMap::new();
    for _ in 0..from.count("part.schema", 3)? {
        let name = from.byte("part.schema")?;
        let name = *TensorName::ALL.get(usize::from(name)).ok_or_else(|| Fault::new("part.schema", "got no tensor"))?;
        let fault = |message: String| Fault::new(format!("part.schema.{name}"), message);
        let dtype = from.byte("part.schema")?;
        let dtype = *DataType::ALL.get(usize::from(dtype)).ok_or_else(|| fault("got no element type".into()))?;
        let mut dims = Vec::with_capacity(from.count("part.schema", 1)?.min(8));
        let count = dims.capacity();
        for _ in 0..count {
            dims.push(from.var("part.schema")?);
        }
        if !name.shapes().iter().any(|shape| shape.len() == count + 1) {
            return Err(fault(format!("got rows of shape {dims:?}, expected another number of dimensions")));
        }
        let width = dims.iter().try_fold(1u64, |width, &dim| width.checked_mul(dim));
        let most = (MOST_ROW_BYTES / dtype.size().max(1)) as u64;
        if !width.is_some_and(|width| (1..=most).contains(&width)) {
            return Err(fault(format!("got rows of shape {dims:?}, expected 1 to {most} elements")));
        }
        let map = matches!(name, TensorName::DeepFeatures | TensorName::ShallowFeatures);
        if map && dims[1] * dims[2] > MOST_CELLS as u64 {
            return Err(fault(format!("got rows of shape {dims:?}, expected at most {MOST_CELLS} cells")));
        }
        if (dtype == DataType::String) != (name.content() == Content::Texts) {
            return Err(fault(format!("got {}, expected the element type of its values", dtype.name())));
        }
        if tensors.last_key_value().is_some_and(|(last, _)| *last >= name) {
            return Err(fault("got tensors that do not ascend".into()));
        }
        // At most `most`, so that every dimension fits.
        tensors.insert(name, (dtype, dims.into_iter().map(|dim| dim as usize).collect()));
    }
    Ok(Schema::of(tensors.into_iter().map(|(name, (dtype, dims))| (name, dtype, dims))))
}

fn read_rows(from: &mut Reader, hashed: bool) -> Result<Rows, Fault> {
    let count = from.count("part.rows", if hashed { 4 } else { 5 })?;
    let clients = from.count("part.clients", 8)?;
    let mut names = Vec::with_capacity(clients);
    for _ in 0..clients {
        names.push(from.fixed("part.clients")?);
    }
    let mut rows = Rows {
        ids: Vec::with_capacity(count),
        origins: Vec::with_capacity(count),
        arrivals: Vec::with_capacity(count),
        columns: BTreeMap::new(),
    };
    for _ in 0..count {
        let before = rows.ids.last().copied();
        let given = if hashed { None } else { Some(from.next_after("part.rows.id", before)?) };
        let client = from.var("part.rows.client")?;
        let client = usize::try_from(client).ok().and_then(|client| names.get(client));
        let client = *client.ok_or_else(|| Fault::new("part.rows.client", "got none of the clients"))?;
        let origin = Origin { client, sequence: from.var("part.rows.sequence")?, row: from.var("part.rows.row")? };
        let arrivals = from.var("part.rows.arrivals")?;
        if arrivals == 0 {
            return Err(Fault::new("part.rows.arrivals", "got 0, expected at least 1"));
        }
        let id = given.unwrap_or_else(|| origin.row_id());
        if before.is_some_and(|before| before >= id) {
            return Err(Fault::new("part.rows.id", "got numbers that do not ascend"));
        }
        rows.ids.push(id);
        rows.origins.push(origin);
        rows.arrivals.push(arrivals);
    }
    Ok(rows)
}

fn read_values(from: &mut Reader, name: TensorName, dims: &[usize], rows: usize) -> Result<Column, Fault> {
    let field = format!("part.columns.{name}");
    let form = from.byte(&field)?;
    let (half, form) = (form & HALF != 0, form & !HALF);
    let dims = Column::row_dims(name, dims);
    let count = dims.iter().try_fold(rows, |count, &dim| count.checked_mul(dim)).ok_or_else(|| too_short(&field))?;
    use Content::{Flags, Floats, FloatsOrNan, Labels, LabelsOrNone, Texts};
    let values = match (form, name.content()) {
        (FLOAT32, Floats | FloatsOrNan | Labels | LabelsOrNone) => {
            Values::Float32(numbers(from.entries(&field, count, 4)?, f32::from_le_bytes))
        }
        (FLOAT64, Floats | FloatsOrNan | Labels | LabelsOrNone) => {
            Values::Float64(numbers(from.entries(&field, count, 8)?, f64::from_le_bytes))
        }
        (INT8, Labels | LabelsOrNone | Flags) => {
            Values::Integer(numbers(from.entries(&field, count, 1)?, |bytes| i8::from_le_bytes(bytes).into()))
        }
        (INT16, Labels | LabelsOrNone | Flags) => {
            Values::Integer(numbers(from.entries(&field, count, 2)?, |bytes| i16::from_le_bytes(bytes).into()))
        }
        (INT32, Labels | LabelsOrNone | Flags) => {
            Values::Integer(numbers(from.entries(&field, count, 4)?, i32::from_le_bytes))
        }
        (TEXT, Texts) => {
            let mut texts = Vec::with_capacity(if count <= from.left.len() { count } else { 0 });
            for _ in 0..count {
                let length = from.count(&field, 1)?;
                if length > MAX_TEXT {
                    return Err(Fault::new(field, format!("got {length} bytes, expected at most {MAX_TEXT}")));
                }
                let text = std::str::from_utf8(from.take(&field, length)?);
                texts.push(text.map_err(|_| Fault::new(&field, "got a text that is not UTF-8"))?.to_owned());
            }
            Values::Text(texts)
        }
        (form, _) => return Err(Fault::new(field, format!("got values of form {form}, expected one of its content"))),
    };
    Ok(Column::read(dims, values, half, None))
}

fn numbers<const BYTES: usize, T>(bytes: &[u8], number: impl Fn([u8; BYTES]) -> T) -> Vec<T> {
    bytes.as_chunks::<BYTES>().0.iter().map(|bytes| number(*bytes)).collect()
}
