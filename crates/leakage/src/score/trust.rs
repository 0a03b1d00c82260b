//! Trustworthiness: whether concepts are predicted from the parts of the image they are about.
//!
//! Source: On the Concept Trustworthiness in Concept Bottleneck Models, eq. 1 and the prediction alignment module.

use std::collections::BTreeMap;

use crate::point::{Outcome, ScoreValue};
use crate::prepare::Prepared;
use crate::sample::MAP_SUMMARY;
use crate::tensor::TensorName;

use super::left_out::Over;
use super::term::{Sum, Term};

/// Height and width of the box in pixels, by default (P3, Details).
const BOX: (u32, u32) = (90, 90);

/// For each concept that has parts, the share of rows with the concept, and with a visible part of it, in which the box
/// around the map's maximum holds one; mean over these concepts, eq. 1. The box is clipped to the image, its borders
/// count as inside.
pub fn concept_trustworthiness(p: &Prepared) -> Result<Outcome, String> {
    let inputs = Inputs::new(p)?;
    let terms: Vec<Option<Result<Term, String>>> = (0..p.concepts()).map(|i| inputs.concept(p, i)).collect();
    let per_concept = terms.iter().map(|term| Some(term.as_ref()?.as_ref().ok()?.value)).collect();
    let of = terms.iter().flatten().count();
    if of == 0 {
        return Err("concept_parts: no concept has a part".to_owned());
    }
    let weights: Vec<f64> = terms.iter().map(|term| f64::from(u8::from(term.is_some())) / of as f64).collect();
    let whys = terms.iter().zip(&p.run().concepts).map(|(term, concept)| {
        let why = term.as_ref()?.as_ref().err()?;
        Some(format!("concept '{}': {why}", concept.name))
    });
    let (_, Over { left_out, undefined }) = Over::concepts(of, &weights, whys);
    let related: Vec<&Term> = terms.iter().flatten().flatten().collect();
    let (mut value, mut sum) = (0.0, Sum::new(p.rows()));
    for term in &related {
        value += term.value / related.len() as f64;
        sum.add(1.0 / related.len() as f64, term);
    }
    let (standard_error, per_concept) = (Some(sum.standard_error()), Some(per_concept));
    let value = ScoreValue { value, standard_error, per_concept, left_out, ..ScoreValue::default() };
    Ok(Outcome::of(undefined, value))
}

/// L_grp: (1/T) Σ over groups of Σ over ordered pairs of its concepts of the squared distance of their centres.
pub fn group(p: &Prepared) -> Result<Outcome, String> {
    alignment(p, |within, _, groups| within / groups)
}

/// L_div: −(1/T²) Σ over ordered pairs of groups of Σ over pairs of their concepts of the squared distance.
pub fn division(p: &Prepared) -> Result<Outcome, String> {
    alignment(p, |_, between, groups| -between / (groups * groups))
}

/// The inputs of eq. 1 for each concept.
struct Inputs {
    /// [n, k, 2], in pixels of the image.
    peaks: Vec<f64>,
    /// [n, p, 2], NaN where not visible.
    parts: Vec<f64>,
    part_count: usize,
    labels: Vec<f64>,
    /// Half of the box, and the image's size where it is known.
    half: [f64; 2],
    image: Option<[f64; 2]>,
}

impl Inputs {
    fn new(p: &Prepared) -> Result<Self, String> {
        let constants = &p.run().constants;
        let k = p.concepts();
        let peaks = match (p.column(TensorName::LocalizationPeaks), p.column(TensorName::LocalizationMaps)) {
            (Some(peaks), _) => peaks.block(0..2 * k),
            (None, Some(_)) if constants.image_size.is_none() => {
                return Err("needs image_size: the maximum of localization_maps has no place in the image".into());
            }
            (None, Some(maps)) => {
                let summaries = maps.block(0..MAP_SUMMARY * k);
                summaries.chunks(MAP_SUMMARY).flat_map(|summary| [summary[0], summary[1]]).collect()
            }
            (None, None) => return Err("there are no localization_maps or localization_peaks".into()),
        };
        let parts = p.column(TensorName::PartLocations).ok_or("there are no part_locations")?;
        let labels = p.column(TensorName::ConceptLabels).ok_or("there are no concept labels")?;
        let part_count = parts.dims()[0];
        let largest = constants.concept_parts.iter().flatten().max();
        if let Some(part) = largest.filter(|&&part| part as usize >= part_count) {
            return Err(format!("concept_parts names part {part}, part_locations has {part_count}"));
        }
        let pair = |(height, width): (u32, u32)| [f64::from(height), f64::from(width)];
        Ok(Self {
            peaks,
            parts: parts.block(0..parts.width()),
            part_count,
            labels: labels.block(0..k),
            half: pair(constants.box_size.unwrap_or(BOX)).map(|size| size / 2.0),
            image: constants.image_size.map(pair),
        })
    }

    /// `None` for a concept without parts.
    fn concept(&self, p: &Prepared, i: usize) -> Option<Result<Term, String>> {
        let own = p.run().constants.concept_parts.get(i).filter(|parts| !parts.is_empty())?;
        let k = p.concepts();
        let row = |row: usize| {
            let place = |part: &u32| {
                let at = 2 * (row * self.part_count + *part as usize);
                [self.parts[at], self.parts[at + 1]]
            };
            let mut visible = own.iter().map(place).filter(|place| place.iter().all(|x| x.is_finite())).peekable();
            let counts = self.labels[row * k + i] > 0.0 && visible.peek().is_some();
            let at = 2 * (row * k + i);
            let peak = [self.peaks[at], self.peaks[at + 1]];
            counts.then(|| f64::from(visible.any(|place| self.holds(peak, place))))
        };
        // An unknown label is negative or NaN, and no row has the concept by it.
        if let Err(why) = p.known(&[i]) {
            return Some(Err(format!("labels: {why}")));
        }
        let rows: Vec<Option<f64>> = (0..p.rows()).map(row).collect();
        Some(Term::mean_of_some_rows(&rows).ok_or_else(|| "no row has it with a visible part".into()))
    }

    fn holds(&self, peak: [f64; 2], place: [f64; 2]) -> bool {
        (0..2).all(|axis| {
            let (low, high) = ((peak[axis] - self.half[axis]).max(0.0), peak[axis] + self.half[axis]);
            let high = self.image.map_or(high, |image| high.min(image[axis]));
            (low..=high).contains(&place[axis])
        })
    }
}

/// Mean over rows of a term of (Σ within groups, Σ between groups, number of groups).
fn alignment(p: &Prepared, term: impl Fn(f64, f64, f64) -> f64) -> Result<Outcome, String> {
    let mut groups: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
    for (i, parts) in p.run().constants.concept_parts.iter().enumerate().filter(|(_, parts)| !parts.is_empty()) {
        let mut region = parts.clone();
        region.sort_unstable();
        region.dedup();
        groups.entry(region).or_default().push(i);
    }
    if groups.is_empty() {
        return Err("concept_parts: no concept has a part".to_owned());
    }
    let maps = p.column(TensorName::LocalizationMaps).ok_or("there are no localization_maps")?;
    let k = p.concepts();
    let summaries = maps.block(0..MAP_SUMMARY * k);
    let row = |row: &[f64]| {
        let centre = |i: usize| [row[MAP_SUMMARY * i + 2], row[MAP_SUMMARY * i + 3]];
        let within: f64 = groups.values().map(|group| distances(group.iter().map(|&i| centre(i)))).sum();
        let all = distances(groups.values().flatten().map(|&i| centre(i)));
        term(within, (all - within).max(0.0), groups.len() as f64)
    };
    let rows: Vec<f64> = summaries.chunks(MAP_SUMMARY * k).map(row).collect();
    Ok(Term::mean_of_rows(&rows).outcome())
}

/// Squared distances over all ordered pairs: 2 (n Σ |x − m|²) with m the mean.
fn distances(points: impl Iterator<Item = [f64; 2]> + Clone) -> f64 {
    let count = points.clone().count() as f64;
    let mean = |axis: usize| points.clone().map(|point| point[axis]).sum::<f64>() / count;
    let mean = [mean(0), mean(1)];
    let spread = points.map(|point| (point[0] - mean[0]).powi(2) + (point[1] - mean[1]).powi(2));
    2.0 * count * spread.sum::<f64>()
}
