//! Access to a tensor's elements: one by one, row by row, or in one pass over all of them.

use std::ops::Range;

use half::{bf16, f16};

use super::{Data, DataType, Tensor};

impl Tensor {
    /// Calls `visit` with every element of `row` widened to f64, which is exact for every type but 64-bit integers.
    /// Texts have none.
    pub fn for_each_float(&self, row: usize, visit: impl FnMut(f64)) {
        let bytes = self.row_bytes(row);
        match self.dtype {
            DataType::Float16 => elements(bytes, |b| f16::from_le_bytes(b).to_f64(), visit),
            DataType::BFloat16 => elements(bytes, |b| bf16::from_le_bytes(b).to_f64(), visit),
            DataType::Float32 => elements(bytes, |b| f64::from(f32::from_le_bytes(b)), visit),
            DataType::Float64 => elements(bytes, f64::from_le_bytes, visit),
            DataType::Int8 => elements(bytes, |b| f64::from(i8::from_le_bytes(b)), visit),
            DataType::Int16 => elements(bytes, |b| f64::from(i16::from_le_bytes(b)), visit),
            DataType::Int32 => elements(bytes, |b| f64::from(i32::from_le_bytes(b)), visit),
            DataType::Int64 => elements(bytes, |b| i64::from_le_bytes(b) as f64, visit),
            DataType::UInt8 | DataType::Bool => elements(bytes, |b| f64::from(u8::from_le_bytes(b)), visit),
            DataType::UInt16 => elements(bytes, |b| f64::from(u16::from_le_bytes(b)), visit),
            DataType::UInt32 => elements(bytes, |b| f64::from(u32::from_le_bytes(b)), visit),
            DataType::UInt64 => elements(bytes, |b| u64::from_le_bytes(b) as f64, visit),
            DataType::String => {}
        }
    }

    /// Calls `visit` with every element of `row` as an integer. Floats are truncated: where integers are needed,
    /// validation ensures that floats are integral, or NaN for an unknown label, which is −1. Texts have none.
    pub fn for_each_integer(&self, row: usize, mut visit: impl FnMut(i64)) {
        let bytes = self.row_bytes(row);
        match self.dtype {
            DataType::Int64 => elements(bytes, i64::from_le_bytes, visit),
            // Values beyond i64 exceed every label's range: saturate, so that the range check refuses them.
            DataType::UInt64 => elements(bytes, |b| i64::try_from(u64::from_le_bytes(b)).unwrap_or(i64::MAX), visit),
            // f64 represents narrower integers exactly.
            _ => self.for_each_float(row, |value| visit(if value.is_nan() { -1 } else { value as i64 })),
        }
    }

    /// Appends the elements of `rows` to `values`, as [`for_each_float`](Self::for_each_float) visits them, rounded.
    pub fn extend_floats(&self, rows: Range<usize>, values: &mut Vec<f32>) {
        match self.dtype {
            DataType::Float32 => extend(self.rows_bytes(rows), f32::from_le_bytes, values),
            _ => rows.for_each(|row| self.for_each_float(row, |value| values.push(value as f32))),
        }
    }

    /// Appends the elements of `rows` to `values`, as [`for_each_integer`](Self::for_each_integer) visits them.
    /// Validation ensures that they fit.
    pub fn extend_integers(&self, rows: Range<usize>, values: &mut Vec<i32>) {
        let bytes = self.rows_bytes(rows.clone());
        match self.dtype {
            DataType::UInt8 | DataType::Bool => extend(bytes, |b: [u8; 1]| i32::from(b[0]), values),
            DataType::Int32 => extend(bytes, i32::from_le_bytes, values),
            DataType::Int64 => extend(bytes, |b| i64::from_le_bytes(b) as i32, values),
            DataType::Float32 => {
                let class = |value: f32| if value.is_nan() { -1 } else { value as i32 };
                extend(bytes, |b| class(f32::from_le_bytes(b)), values);
            }
            _ => rows.for_each(|row| self.for_each_integer(row, |value| values.push(value as i32))),
        }
    }

    /// Whether every element is an integer from 0 to `limit` − 1; `false` for texts.
    pub fn holds_classes_below(&self, limit: u32) -> bool {
        let bytes = self.bytes_from(0);
        // As unsigned integers, negative numbers exceed every limit that i32 can hold.
        let limit = limit.min(i32::MAX as u32);
        let beyond = match self.dtype {
            DataType::UInt8 | DataType::Bool => match u8::try_from(limit) {
                Ok(limit) => position(bytes, |[b]: [u8; 1]| b >= limit),
                Err(_) => None,
            },
            DataType::Int32 | DataType::UInt32 => position(bytes, |b| u32::from_le_bytes(b) >= limit),
            DataType::Int64 | DataType::UInt64 => position(bytes, |b| u64::from_le_bytes(b) >= u64::from(limit)),
            DataType::Float32 => position(bytes, |b| {
                let value = f32::from_le_bytes(b);
                let class = value as i32;
                // -0 is valid, NaN is not.
                class as f32 != value || class as u32 >= limit
            }),
            DataType::Int8
            | DataType::Int16
            | DataType::UInt16
            | DataType::Float16
            | DataType::BFloat16
            | DataType::Float64 => {
                let mut all = true;
                for row in 0..self.rows() {
                    self.for_each_float(row, |value| {
                        all &= value.fract() == 0.0 && value >= 0.0 && value < f64::from(limit);
                    });
                }
                return all;
            }
            DataType::String => return false,
        };
        beyond.is_none()
    }

    /// The row's only element as an unsigned integer, for `sample_ids`; `None` when negative.
    pub fn id(&self, row: usize) -> Option<u64> {
        if self.dtype == DataType::UInt64 {
            let bytes = self.row_bytes(row);
            return bytes.try_into().ok().map(u64::from_le_bytes);
        }
        let mut id = None;
        self.for_each_integer(row, |value| id = u64::try_from(value).ok());
        id
    }

    /// This tensor of floats, with values at most `tolerance` beyond 0 or 1 replaced by 0 or 1, of the elements that
    /// `applies` names by their position.
    pub fn rounded_into_unit(self, tolerance: f64, applies: impl Fn(usize) -> bool) -> Self {
        let bytes = self.bytes_from(0);
        let outside = |value: f64| !(0.0..=1.0).contains(&value);
        let any = match self.dtype {
            DataType::Float32 => position(bytes, |b| !(0.0..=1.0).contains(&f32::from_le_bytes(b))).is_some(),
            DataType::Float64 => position(bytes, |b| outside(f64::from_le_bytes(b))).is_some(),
            DataType::Float16 => position(bytes, |b| outside(f16::from_le_bytes(b).to_f64())).is_some(),
            DataType::BFloat16 => position(bytes, |b| outside(bf16::from_le_bytes(b).to_f64())).is_some(),
            _ => false,
        };
        if !any {
            return self;
        }
        let end = |at: usize, value: f64| {
            let end = value.clamp(0.0, 1.0);
            (outside(value) && (value - end).abs() <= tolerance && applies(at)).then_some(end)
        };
        let mut data = bytes.to_vec();
        match self.dtype {
            DataType::Float32 => {
                replace(&mut data, |at, b| Some((end(at, f32::from_le_bytes(b).into())? as f32).to_le_bytes()));
            }
            DataType::Float64 => replace(&mut data, |at, b| Some(end(at, f64::from_le_bytes(b))?.to_le_bytes())),
            DataType::Float16 => {
                let rounded = |at, b| Some(f16::from_f64(end(at, f16::from_le_bytes(b).to_f64())?).to_le_bytes());
                replace(&mut data, rounded);
            }
            _ => {
                let rounded = |at, b| Some(bf16::from_f64(end(at, bf16::from_le_bytes(b).to_f64())?).to_le_bytes());
                replace(&mut data, rounded);
            }
        }
        Self { data: Data::Bytes(data.into()), ..self }
    }

    /// First row at or after `from` that holds a NaN or an infinity. `from` may be the end.
    pub fn first_non_finite_row(&self, from: usize) -> Option<usize> {
        let bytes = self.bytes_from(from);
        // A float is non-finite if all bits of its exponent are set.
        let at = match self.dtype {
            DataType::Float16 => position(bytes, |b| u16::from_le_bytes(b) & 0x7c00 == 0x7c00),
            DataType::BFloat16 => position(bytes, |b| u16::from_le_bytes(b) & 0x7f80 == 0x7f80),
            DataType::Float32 => position(bytes, |b| u32::from_le_bytes(b) & 0x7f80_0000 == 0x7f80_0000),
            DataType::Float64 => {
                const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
                position(bytes, |b| u64::from_le_bytes(b) & EXPONENT == EXPONENT)
            }
            _ => None,
        };
        at.map(|element| from + element / self.width())
    }
}

fn elements<const SIZE: usize, T>(bytes: &[u8], decode: impl Fn([u8; SIZE]) -> T, mut visit: impl FnMut(T)) {
    for chunk in bytes.as_chunks::<SIZE>().0 {
        visit(decode(*chunk));
    }
}

fn extend<const SIZE: usize, T>(bytes: &[u8], decode: impl Fn([u8; SIZE]) -> T, values: &mut Vec<T>) {
    values.extend(bytes.as_chunks::<SIZE>().0.iter().map(|chunk| decode(*chunk)));
}

/// Puts what `with` returns in the place of each element for which it returns something.
fn replace<const SIZE: usize>(bytes: &mut [u8], with: impl Fn(usize, [u8; SIZE]) -> Option<[u8; SIZE]>) {
    for (at, element) in bytes.as_chunks_mut::<SIZE>().0.iter_mut().enumerate() {
        *element = with(at, *element).unwrap_or(*element);
    }
}

fn position<const SIZE: usize>(bytes: &[u8], found: impl Fn([u8; SIZE]) -> bool) -> Option<usize> {
    // Blocks have no early exit, so that the common case without a hit is vectorised.
    let elements = bytes.as_chunks::<SIZE>().0;
    let mut start = 0;
    for block in elements.chunks(256) {
        if block.iter().fold(false, |any, &element| any | found(element)) {
            return block.iter().position(|&element| found(element)).map(|at| start + at);
        }
        start += block.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::TensorName;
    use proptest::prelude::*;

    /// All types but strings.
    const NUMBERS: [DataType; 13] = *DataType::ALL.first_chunk().expect("13 of 14");

    /// A tensor of one value per row. Integer types take the value modulo their range.
    fn tensor(dtype: DataType, values: &[f64]) -> Tensor {
        let element = |&value: &f64| match dtype {
            DataType::Float16 => f16::from_f64(value).to_le_bytes().to_vec(),
            DataType::BFloat16 => bf16::from_f64(value).to_le_bytes().to_vec(),
            DataType::Float32 => (value as f32).to_le_bytes().to_vec(),
            DataType::Float64 => value.to_le_bytes().to_vec(),
            _ => (value as i64).to_le_bytes()[..dtype.size()].to_vec(),
        };
        let bytes: Vec<u8> = values.iter().flat_map(element).collect();
        Tensor::numbers(TensorName::TaskLabels, dtype, &[values.len() as u64], bytes.into()).unwrap()
    }

    fn value() -> impl Strategy<Value = f64> {
        let odd = [-1.0, -0.0, 0.5, 1.5, 127.0, 128.0, 255.0, 256.0, 32768.0, 65535.0, 65536.0, -32768.0, 4294967295.0];
        let not_finite = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        prop_oneof![
            8 => (0i32..4).prop_map(f64::from),
            2 => prop::sample::select(odd.to_vec()),
            1 => prop::sample::select(not_finite.to_vec()),
        ]
    }

    proptest! {
        #[test]
        fn one_pass_agrees_with_reading_each_element(
            values in prop::collection::vec(value(), 1..600),
            limit in prop::sample::select(vec![1u32, 2, 3, 127, 128, 129, 255, 256, 257, 32768, 65535, 65536, 1 << 31]),
        ) {
            for dtype in NUMBERS {
                let tensor = tensor(dtype, &values);
                let is_class = |row| {
                    let mut is_class = true;
                    tensor.for_each_float(row, |x| is_class &= x.fract() == 0.0 && x >= 0.0 && x < f64::from(limit));
                    is_class
                };
                let expected = (0..values.len()).all(is_class);
                prop_assert_eq!(tensor.holds_classes_below(limit), expected, "{}", dtype.name());
            }
        }

        #[test]
        fn ranges_of_rows_read_like_single_rows(values in prop::collection::vec(value(), 1..20)) {
            for dtype in NUMBERS {
                let tensor = tensor(dtype, &values);
                for row in 0..values.len() {
                    let (mut floats, mut one_by_one) = (Vec::new(), Vec::new());
                    tensor.extend_floats(row..row + 1, &mut floats);
                    tensor.for_each_float(row, |value| one_by_one.push((value as f32).to_bits()));
                    prop_assert_eq!(floats.into_iter().map(f32::to_bits).collect::<Vec<_>>(), one_by_one);
                    let (mut integers, mut one_by_one) = (Vec::new(), Vec::new());
                    tensor.for_each_integer(row, |value| one_by_one.push(value));
                    if one_by_one.iter().all(|&value| i32::try_from(value).is_ok()) {
                        tensor.extend_integers(row..row + 1, &mut integers);
                        prop_assert_eq!(integers.into_iter().map(i64::from).collect::<Vec<_>>(), one_by_one);
                    }
                }
            }
        }
    }

    #[test]
    fn values_a_rounding_error_beyond_0_and_1_become_0_and_1() {
        let values = [0.0, 0.25, 1.0, 1.000_000_5, -5e-7, 1.01, -0.5, f64::NAN, f64::INFINITY];
        let expected = [0.0, 0.25, 1.0, 1.0, 0.0, 1.01, -0.5, f64::NAN, f64::INFINITY];
        for dtype in NUMBERS.into_iter().filter(|dtype| dtype.is_float()) {
            let bits = |tensor: &Tensor| {
                let mut bits = Vec::new();
                (0..tensor.rows()).for_each(|row| tensor.for_each_float(row, |value| bits.push(value.to_bits())));
                bits
            };
            let rounded = tensor(dtype, &values).rounded_into_unit(1e-6, |_| true);
            assert_eq!(bits(&rounded), bits(&tensor(dtype, &expected)), "{}", dtype.name());
        }
    }

    #[test]
    fn a_single_element_beyond_the_limit_is_found_wherever_it_is() {
        for dtype in NUMBERS {
            for at in [0, 255, 256, 599] {
                let mut values = vec![1.0; 600];
                values[at] = 2.0;
                let tensor = tensor(dtype, &values);
                assert!(!tensor.holds_classes_below(2), "{} at {at}", dtype.name());
                assert!(tensor.holds_classes_below(3), "{} at {at}", dtype.name());
            }
        }
    }
}
