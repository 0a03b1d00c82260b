//! One array of a file, and the memory that arrays may take.

use leakage::field_error::FieldError;
use leakage::tensor::{DataType, Tensor, TensorName};

/// The bytes that may be used.
pub struct Memory {
    pub limit: usize,
    pub used: usize,
}

impl Memory {
    /// Takes what an array needs, `None` if that cannot be counted; the fault names it.
    pub fn take(&mut self, name: &str, shape: &[u64], needs: Option<usize>) -> Result<(), FieldError> {
        let total = needs.and_then(|needs| self.used.checked_add(needs));
        let total = total.ok_or_else(|| FieldError::new(name, format!("has shape {shape:?}, which is too large")))?;
        if total > self.limit {
            let (needs, limit) = (total.div_ceil(1 << 20), self.limit >> 20);
            let before = if self.used > 0 { " with the arrays before it" } else { "" };
            let message = format!(
                "has shape {shape:?}, which needs {needs} MiB{before}, expected at most {limit}: see --memory-mib"
            );
            return Err(FieldError::new(name, message));
        }
        self.used = total;
        Ok(())
    }

    /// Takes what `shape` needs of elements of `item_bytes`, each also a value of the sample or of a constant, and returns
    /// the array's own bytes.
    pub fn take_numbers(
        &mut self,
        name: &str,
        shape: &[u64],
        item_bytes: usize,
        copies: usize,
    ) -> Result<usize, FieldError> {
        let elements = elements(shape);
        let bytes = elements.and_then(|elements| elements.checked_mul(item_bytes));
        let needs = || bytes?.checked_mul(copies)?.checked_add(elements?.checked_mul(size_of::<f64>())?);
        self.take(name, shape, needs())?;
        Ok(bytes.unwrap_or(usize::MAX))
    }
}

/// How many elements an array has; `None` if they cannot be counted.
pub fn elements(shape: &[u64]) -> Option<usize> {
    shape.iter().try_fold(1usize, |count, &dim| count.checked_mul(usize::try_from(dim).ok()?))
}

/// One array, in row-major order, under the name that scores know it by.
pub struct Array {
    pub name: String,
    pub shape: Vec<u64>,
    pub elements: Elements,
}

pub enum Elements {
    Numbers(DataType, Vec<u8>),
    Texts(Vec<String>),
}

impl Array {
    pub fn fault(&self, message: impl Into<String>) -> FieldError {
        FieldError::new(self.name.clone(), message)
    }

    pub fn into_tensor(self, name: TensorName) -> Result<Tensor, FieldError> {
        match self.elements {
            Elements::Texts(texts) => Tensor::texts(name, &self.shape, texts),
            Elements::Numbers(dtype, data) => Tensor::numbers(name, dtype, &self.shape, data.into()),
        }
    }

    pub fn texts(&self) -> Result<&[String], FieldError> {
        match &self.elements {
            Elements::Texts(texts) => Ok(texts),
            Elements::Numbers(..) => Err(self.fault("holds numbers, expected strings")),
        }
    }

    pub fn numbers(&self) -> Result<Vec<f64>, FieldError> {
        let Elements::Numbers(dtype, data) = &self.elements else {
            return Err(self.fault("holds strings, expected numbers"));
        };
        let count = (data.len() / dtype.size()) as u64;
        if count == 0 {
            return Err(self.fault("is empty, expected numbers"));
        }
        // Any numeric tensor name will do for decoding; a fault is reported under this array's name.
        let decoded = Tensor::numbers(TensorName::TaskLogits, *dtype, &[1, count], data.clone().into());
        let tensor = decoded.map_err(|fault| FieldError { field: self.name.clone(), ..fault })?;
        let mut numbers = Vec::new();
        tensor.for_each_float(0, |value| numbers.push(value));
        Ok(numbers)
    }

    /// The elements as whole numbers of at least 0.
    pub fn counts(&self) -> Result<Vec<u32>, FieldError> {
        let count = |value: f64| match value as u32 {
            count if f64::from(count) == value => Ok(count),
            _ => Err(self.fault(format!("got {value}, expected whole numbers of 0 to {}", u32::MAX))),
        };
        self.numbers()?.into_iter().map(count).collect()
    }

    /// The one element as a whole number of at least 0.
    pub fn count(&self) -> Result<u32, FieldError> {
        self.exactly(self.counts()?, "one").map(|[count]| count)
    }

    /// `values`, of which there must be `N`.
    pub fn exactly<T, const N: usize>(&self, values: Vec<T>, expected: &str) -> Result<[T; N], FieldError> {
        let fault = |values: Vec<T>| self.fault(format!("got {} numbers, expected {expected}", values.len()));
        values.try_into().map_err(fault)
    }
}

/// Calls `visit` with the row, the column and the value of each element.
pub fn each_element(tensor: &Tensor, mut visit: impl FnMut(usize, usize, f64)) {
    for row in 0..tensor.rows() {
        let mut column = 0;
        tensor.for_each_float(row, |value| {
            visit(row, column, value);
            column += 1;
        });
    }
}
