//! Columns from files of plain little-endian numbers.

pub fn bytes(path: &str) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub fn floats(path: &str) -> Vec<f64> {
    let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    bytes(path).chunks(8).map(number).collect()
}
