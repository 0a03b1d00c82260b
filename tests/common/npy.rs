//! NumPy arrays and archives, well-formed or not.

use std::io::{Cursor, Write};

use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

/// One array as `np.save` writes it.
pub fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    header(&format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"), data)
}

/// An array with this text as its header.
pub fn header(text: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let padding = 63 - (10 + text.len()) % 64;
    bytes.extend(((text.len() + padding + 1) as u16).to_le_bytes());
    bytes.extend(text.bytes().chain(std::iter::repeat_n(b' ', padding)).chain([b'\n']));
    bytes.extend(data);
    bytes
}

pub fn f32s(shape: &str, values: &[f32]) -> Vec<u8> {
    npy("'<f4'", false, shape, &bytes(values.iter().map(|value| value.to_le_bytes())))
}

pub fn f64s(shape: &str, values: &[f64]) -> Vec<u8> {
    npy("'<f8'", false, shape, &bytes(values.iter().map(|value| value.to_le_bytes())))
}

pub fn i64s(shape: &str, values: &[i64]) -> Vec<u8> {
    npy("'<i8'", false, shape, &bytes(values.iter().map(|value| value.to_le_bytes())))
}

/// Unicode strings of `width` characters.
pub fn texts(width: usize, shape: &str, values: &[&str]) -> Vec<u8> {
    let cell = |text: &&str| {
        let mut chars: Vec<u32> = text.chars().map(u32::from).collect();
        chars.resize(width, 0);
        chars
    };
    let data = bytes(values.iter().flat_map(cell).map(u32::to_le_bytes));
    npy(&format!("'<U{width}'"), false, shape, &data)
}

fn bytes<const N: usize>(values: impl Iterator<Item = [u8; N]>) -> Vec<u8> {
    values.flatten().collect()
}

/// Entries by name, as written by `np.savez`.
pub fn archive(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    packed(entries, CompressionMethod::Stored)
}

/// Entries by name, as written by `np.savez_compressed`.
pub fn compressed(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    packed(entries, CompressionMethod::Deflated)
}

fn packed(entries: &[(String, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, data) in entries {
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(name.as_str(), options).unwrap();
        writer.write_all(data).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// An archive of one array of float32 zeros, which is compressed a thousandfold.
pub fn zeros(name: &str, rows: usize, columns: usize) -> Vec<u8> {
    let array = npy("'<f4'", false, &format!("({rows}, {columns})"), &vec![0; 4 * rows * columns]);
    compressed(&[(format!("{name}.npy"), array)])
}
