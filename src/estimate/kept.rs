//! Neighbours of the pairs of some columns, kept from one sample of them to the next: a window that replaces few of its
//! rows between two evaluations then costs about what changed. Results are those of [`mutual_information`] to the last bit.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::checked::{Checked, check};
use super::information::mutual_information;
use super::ksg;
use super::neighbours::carry::{self, Moves, Rows};
use super::neighbours::sorted::Sorted;
use super::settings::{Kind, Settings};
use super::undefined::Undefined;
use super::value::Estimate;
use super::variable::{Continuous, Variable};

/// Share of the rows that may be replaced from one sample to the next for neighbours to be updated rather than found anew.
const MOST_REPLACED: f64 = 0.05;

/// What is kept of the newest sample: 8 bytes for each pair and row, as far as there is room. Pairs beyond that are
/// estimated from nothing. Nothing is kept as long as more than a twentieth of the rows is replaced from one sample to the
/// next, because nothing would come of it.
pub struct Neighbours {
    /// Bytes that pairs may take.
    room: usize,
    newest: Option<Newest>,
    /// Empty, or as many as there are pairs or room for.
    pairs: Vec<Mutex<Option<Pair>>>,
}

struct Newest {
    number: u64,
    settings: Settings,
    ids: Arc<[u64]>,
    columns: Vec<Option<Sorted<f32>>>,
}

/// The balls of a pair.
struct Pair {
    /// Number of the sample they are of.
    sample: u64,
    balls: carry::Balls,
}

impl Neighbours {
    /// Nothing yet; `room` is in bytes.
    pub fn new(room: usize) -> Self {
        Self { room, newest: None, pairs: Vec::new() }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let Some(newest) = &self.newest else { return 0 };
        let rows = newest.ids.len();
        let columns = newest.columns.iter().flatten().map(Sorted::bytes).sum::<usize>();
        columns + rows * size_of::<u64>() + self.pairs.len() * carry::Balls::bytes(rows)
    }

    /// Turns to the next sample of the same columns. `ids` are its rows' identities, ascending.
    pub fn turn_to<'a>(&'a mut self, ids: &Arc<[u64]>, columns: &'a [Variable], settings: Settings) -> Update<'a> {
        let now: Vec<Option<&Sorted<f32>>> = columns.par_iter().map(|column| scalar(column, settings)).collect();
        let same = |newest: &Newest| newest.settings == settings && newest.columns.len() == columns.len();
        let before = self.newest.take().filter(same);
        let number = before.as_ref().map_or(0, |before| before.number + 1);
        let moves = before.and_then(|before| before.moves(ids, &now));
        self.pairs.resize_with(if moves.is_some() { self.most(ids.len(), columns.len()) } else { 0 }, Mutex::default);
        self.pairs.shrink_to_fit();
        let sorted = now.iter().map(|column| column.cloned()).collect();
        self.newest = Some(Newest { number, settings, ids: Arc::clone(ids), columns: sorted });
        Update { pairs: &self.pairs, columns, sorted: now, moves: moves.unwrap_or_default(), number, settings }
    }

    /// How many pairs are kept.
    fn most(&self, rows: usize, columns: usize) -> usize {
        (columns * columns.saturating_sub(1) / 2).min(self.room / carry::Balls::bytes(rows))
    }
}

impl Newest {
    /// How the columns moved from here; `None` where too much did.
    fn moves(&self, ids: &[u64], now: &[Option<&Sorted<f32>>]) -> Option<Vec<Option<Moves>>> {
        let columns: Vec<_> =
            self.columns.iter().zip(now).map(|(before, now)| Some((before.as_ref()?, (*now)?))).collect();
        let same = |old: usize, new: usize| {
            columns.iter().flatten().all(|(before, now)| before.of_row(old).to_bits() == now.of_row(new).to_bits())
        };
        let rows = Rows::compare(&self.ids, ids, same);
        if rows.changed() as f64 > 2.0 * MOST_REPLACED * ids.len() as f64 {
            return None;
        }
        let moves =
            |column: &Option<(&Sorted<f32>, &Sorted<f32>)>| column.map(|(before, now)| Moves::new(&rows, before, now));
        Some(columns.par_iter().map(moves).collect())
    }
}

/// The column as searches see it, where its neighbours can be kept.
fn scalar(column: &Variable, settings: Settings) -> Option<&Sorted<f32>> {
    match check(column, &settings) {
        Ok(Checked::Continuous(Continuous::Scalar(column))) if settings.kind == Kind::TieAware => {
            column.compact().filter(|column| column.rows().len() <= carry::MOST_ROWS)
        }
        _ => None,
    }
}

/// The estimates of one sample.
pub struct Update<'a> {
    pairs: &'a [Mutex<Option<Pair>>],
    columns: &'a [Variable],
    sorted: Vec<Option<&'a Sorted<f32>>>,
    /// Of each column since the sample before; empty where too much changed.
    moves: Vec<Option<Moves>>,
    number: u64,
    settings: Settings,
}

impl Update<'_> {
    /// [`mutual_information`] of columns `i` < `j`.
    pub fn mutual_information(&self, i: usize, j: usize) -> Result<Estimate, Undefined> {
        let number_of_pair = i * (2 * self.columns.len() - i - 1) / 2 + (j - i - 1);
        let (column_x, column_y) = (&self.columns[i], &self.columns[j]);
        let (Some(pair), Some(x), Some(y)) = (self.pairs.get(number_of_pair), self.sorted[i], self.sorted[j]) else {
            return mutual_information(column_x, column_y, &self.settings);
        };
        if let (Variable::Scalar(x), Variable::Scalar(y)) = (column_x, column_y)
            && ksg::levels_of_few_cells(x, y).is_some()
        {
            // Found anew as soon as updated.
            return mutual_information(column_x, column_y, &self.settings);
        }
        let mut pair = pair.lock().unwrap_or_else(PoisonError::into_inner);
        let before = pair.take().filter(|pair| pair.sample + 1 == self.number);
        let moves = || Some([self.moves.get(i)?.as_ref()?, self.moves.get(j)?.as_ref()?]);
        let before = before.as_ref().and_then(|before| Some((&before.balls, moves()?)));
        let (estimate, balls) = ksg::tie_aware_and_balls([x, y], &self.settings, before);
        *pair = balls.map(|balls| Pair { sample: self.number, balls });
        Ok(estimate)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::key::Key;
    use super::*;

    /// A window whose rows are replaced one by one.
    struct Window {
        random: ChaCha8Rng,
        rows: Vec<(u64, Vec<f64>)>,
        next: u64,
        width: usize,
        /// Values are rounded to so many levels in a unit; 0 leaves them as they are.
        levels: f64,
    }

    impl Window {
        fn new(seed: u64, rows: usize, width: usize, levels: f64) -> Self {
            let mut window = Self { random: ChaCha8Rng::seed_from_u64(seed), rows: Vec::new(), next: 0, width, levels };
            for _ in 0..rows {
                let row = window.row();
                window.rows.push(row);
            }
            window
        }

        fn row(&mut self) -> (u64, Vec<f64>) {
            self.next += self.random.random_range(1..4);
            let common = self.random.random::<f64>();
            let value = |random: &mut ChaCha8Rng| {
                let value = 0.5 * (common + random.random::<f64>());
                let value = if self.levels > 0.0 { (value * self.levels).round() / self.levels } else { value };
                f64::from(value as f32)
            };
            (self.next, (0..self.width).map(|_| value(&mut self.random)).collect())
        }

        /// A third of the replacements bring a new value of the same row.
        fn replace(&mut self, count: usize) {
            for _ in 0..count {
                let at = self.random.random_range(0..self.rows.len());
                let (id, values) = self.row();
                if self.random.random_range(0..3) == 0 {
                    self.rows[at].1 = values;
                } else {
                    self.rows.remove(at);
                    self.rows.push((id, values));
                }
            }
        }

        fn columns(&self) -> (Arc<[u64]>, Vec<Variable>) {
            let ids: Arc<[u64]> = self.rows.iter().map(|row| row.0).collect();
            let column = |at: usize| {
                let values = self.rows.iter().map(|row| row.1[at]).collect();
                Variable::scalar(values, &ids, Key { tensor: 0, coordinate: at as u64 })
            };
            let columns = (0..self.width).map(column).collect();
            (ids, columns)
        }
    }

    /// How many estimates were updates.
    fn check(mut window: Window, replacements: &[usize], settings: Settings, room: usize) -> usize {
        let mut kept = Neighbours::new(room);
        let mut updated = 0;
        for &count in replacements {
            window.replace(count);
            let (ids, columns) = window.columns();
            let update = kept.turn_to(&ids, &columns, settings);
            if !update.moves.is_empty() {
                let of_before = |pair: &&Mutex<Option<Pair>>| {
                    pair.lock().unwrap().as_ref().is_some_and(|pair| pair.sample + 1 == update.number)
                };
                updated += update.pairs.iter().filter(of_before).count();
            }
            for (i, j) in (0..window.width).flat_map(|j| (0..j).map(move |i| (i, j))) {
                let expected = mutual_information(&columns[i], &columns[j], &settings);
                assert_eq!(update.mutual_information(i, j), expected, "{i}, {j}");
            }
            assert!(kept.pairs.len() * carry::Balls::bytes(ids.len()) <= room);
        }
        updated
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn an_updated_estimate_has_the_bits_of_one_from_nothing(
            seed: u64,
            rows in 20..600_usize,
            neighbours in 1..6_usize,
            levels in prop_oneof![Just(0.0), Just(32_768.0), Just(32_768.0), Just(4096.0), Just(200.0), Just(32.0)],
            replacements in prop::collection::vec(0..12_usize, 2..8),
        ) {
            let settings = Settings { neighbours, ..Settings::default() };
            check(Window::new(seed, rows, 3, levels), &replacements, settings, 1 << 20);
        }
    }

    #[test]
    fn neighbours_are_updated_where_few_rows_change_and_kept_within_their_room() {
        let settings = Settings::default();
        let window = || Window::new(1, 500, 4, 0.0);
        // The first sample has none before it, and the second nothing kept of it.
        assert_eq!(check(window(), &[0, 5, 5, 0, 20], settings, 1 << 20), 3 * 6);
        // Too many rows in the third, so that nothing is kept of it.
        assert_eq!(check(window(), &[0, 5, 60, 5, 5], settings, 1 << 20), 6);
        // Room for two of the six pairs, and for none.
        assert_eq!(check(window(), &[0, 5, 5, 5], settings, 2 * carry::Balls::bytes(500)), 2 * 2);
        assert_eq!(check(window(), &[0, 5, 5, 5], settings, 1000), 0);
        // Most points have ties.
        assert_eq!(check(Window::new(1, 500, 4, 10.0), &[0, 5, 5, 5], settings, 1 << 20), 0);
        let published = Settings { kind: Kind::Published, ..settings };
        assert_eq!(check(window(), &[0, 5, 5, 5], published, 1 << 20), 0);
    }
}
