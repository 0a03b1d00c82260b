//! Typed columns: the values that a sample keeps of a tensor, row-major.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::priority_order::{grow, growth};
use crate::tensor::{Content, DataType, Tensor, TensorName};

use super::features::{self, DIFFERENCE_SUMMARY};
use super::map::{self, MAP_SUMMARY};

/// The rows of one tensor. Floats keep the precision they were sent in (16-bit floats widen to f32, which is exact).
/// When a row is added, Monte-Carlo samples are averaged, and localisation and feature maps reduced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Shape of one row, such as `[k, d]`; empty for one value a row.
    dims: Vec<usize>,
    values: Values,
    /// Whether any row was sent as float16 or bfloat16.
    half: bool,
    /// (height, width) in pixels to which localisation maps are resized before their maximum is located.
    image_size: Option<(u32, u32)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Values {
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    /// Class numbers and flags.
    Integer(Vec<i32>),
    Text(Vec<String>),
}

/// An expression of the vector of some values, whatever their type.
macro_rules! of_vector {
    ($values:expr, $vector:ident => $of:expr) => {
        match $values {
            Values::Float32($vector) => $of,
            Values::Float64($vector) => $of,
            Values::Integer($vector) => $of,
            Values::Text($vector) => $of,
        }
    };
}

/// Values of the same type, from an expression of the vector of some.
macro_rules! map_vector {
    ($values:expr, $vector:ident => $to:expr) => {
        match $values {
            Values::Float32($vector) => Values::Float32($to),
            Values::Float64($vector) => Values::Float64($to),
            Values::Integer($vector) => Values::Integer($to),
            Values::Text($vector) => Values::Text($to),
        }
    };
}

fn element_size<T>(_: &[T]) -> usize {
    size_of::<T>()
}

impl Column {
    /// An empty column for rows of `tensor`; `labels_are_continuous` keeps labels of any type as floats.
    pub fn for_tensor(tensor: &Tensor, labels_are_continuous: bool) -> Self {
        let name = tensor.name();
        let values = match tensor.dtype() {
            _ if name.content() == Content::Texts => Values::Text(Vec::new()),
            _ if Self::holds_classes(name, labels_are_continuous) => Values::Integer(Vec::new()),
            // Integers that f32 may not represent exactly, such as labels of a regression.
            DataType::Float64 | DataType::Int32 | DataType::Int64 | DataType::UInt32 | DataType::UInt64 => {
                Values::Float64(Vec::new())
            }
            _ => Values::Float32(Vec::new()),
        };
        let dims = Self::row_dims(name, &tensor.shape()[1..]);
        Self { dims, values, half: tensor.dtype().is_half(), image_size: None }
    }

    /// Whether the rows of a tensor are kept as class numbers or flags.
    pub(super) fn holds_classes(name: TensorName, labels_are_continuous: bool) -> bool {
        match name.content() {
            Content::Flags => true,
            Content::Labels | Content::LabelsOrNone => !labels_are_continuous,
            Content::Floats | Content::FloatsOrNan | Content::Ids | Content::Texts => false,
        }
    }

    /// Shape of what is kept of a row of shape `dims`.
    pub(super) fn row_dims(name: TensorName, dims: &[usize]) -> Vec<usize> {
        match name {
            // A vector has no such shape: its shape is found at fault later, where k is known.
            TensorName::ConceptActivations => dims.iter().take(1).copied().collect(),
            TensorName::LocalizationMaps => vec![dims[0], MAP_SUMMARY],
            TensorName::DeepFeatures | TensorName::ShallowFeatures => {
                vec![features::similarity_count(dims[1], dims[2])]
            }
            TensorName::CrossImageDifference => vec![DIFFERENCE_SUMMARY],
            _ => dims.to_vec(),
        }
    }

    /// This column, for localisation maps of images of (height, width) pixels.
    pub fn at_image_size(self, image_size: Option<(u32, u32)>) -> Self {
        Self { image_size, ..self }
    }

    /// Number of values in one row.
    pub fn width(&self) -> usize {
        self.dims.iter().product()
    }

    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    pub fn is_half(&self) -> bool {
        self.half
    }

    pub fn values(&self) -> &Values {
        &self.values
    }

    pub fn rows(&self) -> usize {
        self.len() / self.width()
    }

    /// Whether it has exactly that many rows, for one that was written out and read.
    pub(super) fn has_rows(&self, rows: usize) -> bool {
        let width = self.dims.iter().try_fold(1, |width: usize, &dim| width.checked_mul(dim));
        width.is_some_and(|width| width > 0 && width.checked_mul(rows) == Some(self.len()))
    }

    fn len(&self) -> usize {
        of_vector!(&self.values, v => v.len())
    }

    /// Bytes held in memory.
    pub fn bytes(&self) -> usize {
        of_vector!(&self.values, v => v.capacity() * element_size(v)) + self.text_bytes()
    }

    /// Bytes of the texts themselves.
    pub fn text_bytes(&self) -> usize {
        match &self.values {
            Values::Text(v) => v.iter().map(String::capacity).sum(),
            _ => 0,
        }
    }

    /// An empty column of the same type and row shape.
    pub fn empty_like(&self) -> Self {
        self.gather(&[])
    }

    /// Reserves room for `more` rows: at least doubles the capacity, but not beyond `most` rows if they suffice, so
    /// that a full sample does not waste half of its memory.
    pub fn grow(&mut self, more: usize, most: usize) {
        let width = self.width();
        of_vector!(&mut self.values, v => grow(v, more * width, most * width));
    }

    /// Bytes that [`grow`](Self::grow) would add.
    pub fn growth(&self, more: usize, most: usize) -> usize {
        let width = self.width();
        of_vector!(&self.values, v => growth(v, more * width, most * width) * element_size(v))
    }

    /// Appends rows of `tensor`.
    pub fn extend(&mut self, tensor: &Tensor, rows: Range<usize>) {
        let shape = (self.dims[..].first().copied().unwrap_or(1), self.image_size);
        match &mut self.values {
            Values::Text(v) => v.extend(rows.map(|row| tensor.text(row).to_owned())),
            // Class numbers fit: the batch was validated.
            Values::Integer(v) => tensor.extend_integers(rows, v),
            Values::Float32(v) if !is_reduced(tensor) => tensor.extend_floats(rows, v),
            Values::Float32(v) => rows.for_each(|row| push_floats(shape, tensor, row, |value| v.push(value as f32))),
            Values::Float64(v) => rows.for_each(|row| push_floats(shape, tensor, row, |value| v.push(value))),
        }
    }

    /// Takes values as precise as those of `other`, a column of the same tensor that may have come in another type.
    pub(super) fn fit(&mut self, other: &Column) {
        self.half |= other.half;
        if let (Values::Float32(narrow), Values::Float64(_)) = (&self.values, &other.values) {
            self.values = Values::Float64(narrow.iter().map(|&value| f64::from(value)).collect());
        }
    }

    /// Appends rows of `other`, a column of the same tensor.
    pub fn append(&mut self, other: &Column, rows: Range<usize>) {
        self.fit(other);
        let width = self.width();
        let range = rows.start * width..rows.end * width;
        match (&mut self.values, &other.values) {
            (Values::Float64(a), Values::Float32(b)) => a.extend(b[range].iter().map(|&value| f64::from(value))),
            (Values::Float32(a), Values::Float32(b)) => a.extend_from_slice(&b[range]),
            (Values::Float64(a), Values::Float64(b)) => a.extend_from_slice(&b[range]),
            (Values::Integer(a), Values::Integer(b)) => a.extend_from_slice(&b[range]),
            (Values::Text(a), Values::Text(b)) => a.extend_from_slice(&b[range]),
            _ => unreachable!("columns of one tensor are all numbers of one kind, or all texts: its name decides"),
        }
    }

    /// Removes row `row`; the last row takes its place.
    pub fn swap_remove(&mut self, row: usize) {
        let (width, last) = (self.width(), self.rows() - 1);
        fn move_last<T>(v: &mut Vec<T>, width: usize, row: usize, last: usize) {
            let (before, end) = v.split_at_mut(last * width);
            if row < last {
                before[row * width..(row + 1) * width].swap_with_slice(end);
            }
            v.truncate(last * width);
        }
        of_vector!(&mut self.values, v => move_last(v, width, row, last));
    }

    /// The same rows in another order: row i of the result is row `order[i]`.
    pub fn gather(&self, order: &[usize]) -> Column {
        let width = self.width();
        fn gather<T: Clone>(v: &[T], width: usize, order: &[usize]) -> Vec<T> {
            let mut rows = Vec::with_capacity(order.len() * width);
            order.iter().for_each(|&row| rows.extend_from_slice(&v[row * width..(row + 1) * width]));
            rows
        }
        let values = map_vector!(&self.values, v => gather(v, width, order));
        Column { dims: self.dims.clone(), values, ..*self }
    }

    /// Values `at` of every row, for rows of shape `dims`.
    pub fn select(&self, at: &[usize], dims: Vec<usize>) -> Column {
        let width = self.width();
        fn select<T: Clone>(v: &[T], width: usize, at: &[usize]) -> Vec<T> {
            v.chunks(width).flat_map(|row| at.iter().map(|&at| row[at].clone())).collect()
        }
        Column { dims, values: map_vector!(&self.values, v => select(v, width, at)), ..*self }
    }

    /// The same values as class numbers, of which NaN is none: −1.
    pub(super) fn of_classes(self) -> Column {
        fn classes<T: Into<f64> + Copy>(values: &[T]) -> Values {
            let class = |value: f64| if value.is_nan() { -1 } else { value as i32 };
            Values::Integer(values.iter().map(|&value| class(value.into())).collect())
        }
        let values = match self.values {
            Values::Float32(v) => classes(&v),
            Values::Float64(v) => classes(&v),
            other => other,
        };
        Column { values, ..self }
    }

    /// Value `at` of every row, as f64. Texts have none.
    pub fn floats(&self, at: usize) -> Vec<f64> {
        let width = self.width();
        match &self.values {
            Values::Float32(v) => v.iter().skip(at).step_by(width).map(|&x| f64::from(x)).collect(),
            Values::Float64(v) => v.iter().skip(at).step_by(width).copied().collect(),
            Values::Integer(v) => v.iter().skip(at).step_by(width).map(|&x| f64::from(x)).collect(),
            Values::Text(_) => Vec::new(),
        }
    }

    /// Values `range` of every row, row-major, as f64. Texts have none.
    pub fn block(&self, range: Range<usize>) -> Vec<f64> {
        let width = self.width();
        match &self.values {
            Values::Float32(v) => v.chunks(width).flat_map(|row| &row[range.clone()]).map(|&x| f64::from(x)).collect(),
            Values::Float64(v) => v.chunks(width).flat_map(|row| &row[range.clone()]).copied().collect(),
            Values::Integer(v) => v.chunks(width).flat_map(|row| &row[range.clone()]).map(|&x| f64::from(x)).collect(),
            Values::Text(_) => Vec::new(),
        }
    }

    /// Value `at` of every row as class numbers; `None` for columns of floats or texts.
    pub fn integers(&self, at: usize) -> Option<Vec<i32>> {
        match &self.values {
            Values::Integer(v) => Some(v.iter().skip(at).step_by(self.width()).copied().collect()),
            _ => None,
        }
    }
}

/// Whether a row of the tensor has more elements than its column has values.
fn is_reduced(tensor: &Tensor) -> bool {
    match tensor.name() {
        TensorName::ConceptActivations => tensor.shape().len() == 3,
        name => {
            use TensorName::{CrossImageDifference, DeepFeatures, LocalizationMaps, ShallowFeatures};
            matches!(name, LocalizationMaps | DeepFeatures | ShallowFeatures | CrossImageDifference)
        }
    }
}

/// `concepts` and `image_size` matter for a column of maps only.
fn push_floats(
    (concepts, image_size): (usize, Option<(u32, u32)>),
    tensor: &Tensor,
    row: usize,
    mut push: impl FnMut(f64),
) {
    match tensor.name() {
        TensorName::ConceptActivations if tensor.shape().len() == 3 => {
            // [n, k, m]: the mean over m Monte-Carlo samples.
            let m = tensor.shape()[2];
            let (mut sum, mut at) = (0.0, 0);
            tensor.for_each_float(row, |value| {
                sum += value;
                at += 1;
                if at == m {
                    push(sum / m as f64);
                    (sum, at) = (0.0, 0);
                }
            });
        }
        TensorName::LocalizationMaps => {
            let (height, width) = (tensor.shape()[2], tensor.shape()[3]);
            let mut map = Vec::with_capacity(height * width);
            let mut maps_left = concepts;
            tensor.for_each_float(row, |value| {
                map.push(value);
                if map.len() == height * width && maps_left > 0 {
                    map::summarise(&map, width, image_size).into_iter().for_each(&mut push);
                    map.clear();
                    maps_left -= 1;
                }
            });
        }
        TensorName::DeepFeatures | TensorName::ShallowFeatures => {
            let mut map = Vec::with_capacity(tensor.width());
            tensor.for_each_float(row, |value| map.push(value));
            features::similarities(&map, tensor.shape()[2], tensor.shape()[3]).into_iter().for_each(push);
        }
        TensorName::CrossImageDifference => {
            let mut squares = 0.0;
            tensor.for_each_float(row, |value| squares += value * value);
            [squares, tensor.width() as f64].into_iter().for_each(push);
        }
        _ => tensor.for_each_float(row, push),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: TensorName, dtype: DataType, shape: &[u64], values: &[f64]) -> Tensor {
        let bytes = values.iter().flat_map(|&value| match dtype {
            DataType::Float16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
            DataType::Float32 => (value as f32).to_le_bytes().to_vec(),
            DataType::Float64 => value.to_le_bytes().to_vec(),
            _ => (value as i64).to_le_bytes().to_vec(),
        });
        Tensor::numbers(name, dtype, shape, bytes.collect::<Vec<u8>>().into()).unwrap()
    }

    fn column(tensor: &Tensor) -> Column {
        let mut column = Column::for_tensor(tensor, false);
        column.extend(tensor, 0..tensor.rows());
        column
    }

    #[test]
    fn rows_of_another_float_type_keep_their_values() {
        let of = |dtype, value| {
            let tensor = tensor(TensorName::ConceptActivations, dtype, &[1, 1], &[value]);
            let mut column = Column::for_tensor(&tensor, false);
            column.extend(&tensor, 0..1);
            column
        };
        let (single, double) = (of(DataType::Float32, 0.25), of(DataType::Float64, 0.1));
        for [first, second] in [[&single, &double], [&double, &single]] {
            let expected = [first.floats(0), second.floats(0)].concat();
            let mut appended = first.clone();
            appended.append(second, 0..1);
            assert_eq!(appended.floats(0), expected);
            assert!(matches!(appended.values(), Values::Float64(_)));
        }
    }

    #[test]
    fn monte_carlo_samples_are_averaged() {
        let values = [0.25, 0.75, 1.0, 0.0, -1.0, 1.0, 3.0, 5.0];
        let column = column(&tensor(TensorName::ConceptActivations, DataType::Float32, &[2, 2, 2], &values));
        assert_eq!((column.dims(), column.rows()), (&[2][..], 2));
        assert_eq!(column.values(), &Values::Float32(vec![0.5, 0.5, 0.0, 4.0]));
    }

    #[test]
    fn maps_are_reduced_to_their_peak_and_centre_of_mass() {
        // Row 0: one peak at (1, 2), and below 0 elsewhere. Row 1: nothing above 0. Row 2: two equal peaks.
        let values =
            [[-1.0, -1.0, -1.0, -1.0, -1.0, 4.0], [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0], [2.0, 0.0, 0.0, 0.0, 0.0, 2.0]];
        let maps = tensor(TensorName::LocalizationMaps, DataType::Float64, &[3, 1, 2, 3], &values.concat());
        let column = column(&maps);
        assert_eq!((column.dims(), column.rows()), (&[1, MAP_SUMMARY][..], 3));
        assert_eq!(column.block(0..4), [1.0, 2.0, 1.0, 2.0, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.5, 1.0]);
    }

    #[test]
    fn maps_of_an_image_have_their_peak_in_its_pixels() {
        let maps = tensor(TensorName::LocalizationMaps, DataType::Float32, &[1, 1, 2, 2], &[0.0, 0.0, 0.0, 1.0]);
        let mut column = Column::for_tensor(&maps, false).at_image_size(Some((20, 30)));
        column.extend(&maps, 0..1);
        let mut copied = column.empty_like();
        copied.extend(&maps, 0..1);
        assert_eq!(copied, column, "an empty column keeps the size");
        // The curve rises a little further beyond the centre of the last value, which is at 15 and 22.5 pixels.
        let peak = column.block(0..2);
        assert!((15.0..20.0).contains(&peak[0]) && (22.0..30.0).contains(&peak[1]), "{peak:?}");
        assert_eq!(column.block(2..4), [1.0, 1.0]);
        assert!(column.bytes() <= 4 * MAP_SUMMARY * size_of::<f32>());
    }

    #[test]
    fn values_are_kept_in_the_narrowest_exact_type() {
        let kind = |name, dtype, continuous| match Column::for_tensor(&tensor(name, dtype, &[1], &[1.0]), continuous) {
            Column { values: Values::Float32(_), half, .. } => {
                if half {
                    "half"
                } else {
                    "f32"
                }
            }
            Column { values: Values::Float64(_), .. } => "f64",
            Column { values: Values::Integer(_), .. } => "integer",
            Column { values: Values::Text(_), .. } => "text",
        };
        assert_eq!(kind(TensorName::TaskLabels, DataType::Float32, false), "integer");
        assert_eq!(kind(TensorName::TaskLabels, DataType::Float32, true), "f32");
        assert_eq!(kind(TensorName::TaskLabels, DataType::Int64, true), "f64");
        assert_eq!(kind(TensorName::TaskPredictions, DataType::Int64, false), "integer");
        assert_eq!(kind(TensorName::TaskPredictions, DataType::Int64, true), "f64");
        assert_eq!(kind(TensorName::ImageEmbeddings, DataType::Float64, false), "f64");
        assert_eq!(kind(TensorName::ImageEmbeddings, DataType::Float16, false), "half");
    }

    #[test]
    fn rows_move_whole() {
        let embeddings = tensor(TensorName::ImageEmbeddings, DataType::Float32, &[3, 2], &[0., 1., 10., 11., 20., 21.]);
        let mut moved = column(&embeddings);
        assert_eq!(moved.gather(&[2, 0]).block(0..2), [20.0, 21.0, 0.0, 1.0]);
        let mut copied = moved.empty_like();
        copied.append(&moved, 1..2);
        assert_eq!((copied.floats(0), copied.floats(1)), (vec![10.0], vec![11.0]));
        moved.swap_remove(0);
        assert_eq!(moved.block(0..2), [20.0, 21.0, 10.0, 11.0]);
        moved.swap_remove(1);
        assert_eq!((moved.block(1..2), moved.integers(0)), (vec![21.0], None));
    }
}
