//! Lists of optional numbers as bytes. An absent number is stored as NaN; any number that is not finite reads as absent.

pub(super) fn pack_f64(values: &[Option<f64>]) -> Vec<u8> {
    values.iter().flat_map(|value| value.unwrap_or(f64::NAN).to_le_bytes()).collect()
}

pub(super) fn unpack_f64(bytes: &[u8]) -> Vec<Option<f64>> {
    let (chunks, _) = bytes.as_chunks::<8>();
    chunks.iter().map(|chunk| Some(f64::from_le_bytes(*chunk)).filter(|value| value.is_finite())).collect()
}

pub(super) fn pack_curve(curve: &[(f64, Option<f64>)]) -> Vec<u8> {
    pack_f64(&curve.iter().flat_map(|(threshold, value)| [Some(*threshold), *value]).collect::<Vec<_>>())
}

pub(super) fn unpack_curve(bytes: &[u8]) -> Vec<(f64, Option<f64>)> {
    let cells = unpack_f64(bytes);
    let (pairs, _) = cells.as_chunks::<2>();
    pairs.iter().filter_map(|[threshold, value]| Some(((*threshold)?, *value))).collect()
}

pub(super) fn pack_f32<'a>(values: impl Iterator<Item = &'a Option<f64>>) -> Vec<u8> {
    values.flat_map(|value| (value.unwrap_or(f64::NAN) as f32).to_le_bytes()).collect()
}

pub(super) fn unpack_f32(bytes: &[u8]) -> Vec<Option<f64>> {
    let (chunks, _) = bytes.as_chunks::<4>();
    chunks.iter().map(|chunk| Some(f64::from(f32::from_le_bytes(*chunk))).filter(|value| value.is_finite())).collect()
}
