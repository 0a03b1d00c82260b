//! Work of a score on all threads of the pool.

use std::sync::Mutex;

use rayon::prelude::*;

use crate::lock::lock;

/// Returns the results of `of` for 0, 1, …, `n` − 1, in this order.
///
/// The function is a trait object, which costs nothing beside the work of a concept: rayon's machinery for a parallel
/// loop is thousands of instructions, and a sixth of this crate was copies of it.
pub fn map<T: Send>(n: usize, of: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    let results: Vec<Mutex<Option<T>>> = (0..n).map(|_| Mutex::new(None)).collect();
    for_each(n, &|at| {
        let result = of(at);
        *lock(&results[at]) = Some(result);
    });
    let result = |slot: Mutex<Option<T>>| slot.into_inner().ok().flatten().expect("each was computed, without a panic");
    results.into_iter().map(result).collect()
}

fn for_each(n: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..n).into_par_iter().for_each(work);
}
