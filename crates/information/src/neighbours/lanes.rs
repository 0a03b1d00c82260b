//! Several points searched at once: a *lane* holds one point's part of every step, and the compiler turns a step into
//! vector instructions. A function in `every_width!` is compiled for each instruction set named there and picks the widest
//! the processor has. There is one source and the arithmetic is exact, so every width gives the same bits: `tests/widths`
//! compares them.
//!
//! The state of lanes between steps is in types aligned to 64 bytes: the start of the stack differs from process to process,
//! and vectors across two of its pages make some processes several times slower.

use std::ops::Sub;

/// Points that are searched for together.
pub const LANES: usize = 16;

/// A number that columns are stored in: f32 where every value is one, which makes vectors hold twice as many, else f64.
///
/// Searching float32 values in float32 loses nothing. A difference is rounded, but rounding keeps the order: the k-th
/// smallest of the rounded distances is the k-th smallest distance, rounded. Only points whose rounded distance equals
/// the rounded radius are in doubt; they are compared again in f64, as are true ties.
///
/// Gain: row `Float32` of README.md (`cargo bench --bench shapes`), also where many distances are compared
/// again.
pub trait Real: Copy + PartialOrd + Default + Send + Sync + Sub<Output = Self> + 'static {
    const INFINITY: Self;
    const LOWEST: Self;

    fn abs(self) -> Self;
    fn widen(self) -> f64;
    /// The nearest number of this kind.
    fn narrow(value: f64) -> Self;

    /// The rows of a column in ascending order of their values; equal ones keep their order. What is compared are bits in the
    /// order of the numbers, beside the row: to look each number up by its row would take twice as long.
    fn ascending(column: &[Self]) -> Vec<u32>;

    /// The larger of two distances. Of float32 numbers that are not below 0 the larger one has the larger bits, and
    /// comparing those is work for other units of the processor than minima of numbers are: searches alternate.
    #[inline(always)]
    fn farther(self, other: Self) -> Self {
        larger(self, other)
    }
}

macro_rules! real {
    ($real:ty, $($own:item)*) => {
        impl Real for $real {
            const INFINITY: Self = Self::INFINITY;
            const LOWEST: Self = Self::NEG_INFINITY;

            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn widen(self) -> f64 {
                f64::from(self)
            }

            #[inline(always)]
            fn narrow(value: f64) -> Self {
                value as $real
            }

            $($own)*
        }
    };
}

real! {
    f32,
    #[inline(always)]
    fn farther(self, other: Self) -> Self {
        let (a, b) = (self.to_bits().cast_signed(), other.to_bits().cast_signed());
        Self::from_bits((if a > b { a } else { b }).cast_unsigned())
    }

    /// Bits and row are one number.
    fn ascending(column: &[Self]) -> Vec<u32> {
        let key = |(value, row): (&Self, u32)| {
            let bits = value.to_bits();
            let ordered = bits ^ ((bits.cast_signed() >> 31).cast_unsigned() | 1 << 31);
            u64::from(ordered) << 32 | u64::from(row)
        };
        let mut keys: Vec<u64> = column.iter().zip(0..).map(key).collect();
        keys.sort_unstable();
        keys.into_iter().map(|key| key as u32).collect()
    }
}
real! {
    f64,
    fn ascending(column: &[Self]) -> Vec<u32> {
        let key = |(value, row): (&Self, u32)| {
            let bits = value.to_bits();
            (bits ^ ((bits.cast_signed() >> 63).cast_unsigned() | 1 << 63), row)
        };
        let mut keys: Vec<(u64, u32)> = column.iter().zip(0..).map(key).collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, row)| row).collect()
    }
}

/// How far apart two values are in f64, where a difference of float32 values that was rounded is not exact enough.
#[inline(always)]
pub fn far<T: Real>(a: T, b: T) -> f64 {
    (a.widen() - b.widen()).abs()
}

/// The first values, one in each lane.
#[inline(always)]
pub fn contiguous<T: Real>(values: &[T]) -> [T; LANES] {
    let mut lanes = [T::default(); LANES];
    lanes.copy_from_slice(&values[..LANES]);
    lanes
}

/// The larger; plain comparison compiles to one instruction, since no distance is NaN.
#[inline(always)]
pub fn larger<T: Real>(a: T, b: T) -> T {
    if a > b { a } else { b }
}

/// The smaller, likewise.
#[inline(always)]
pub fn smaller<T: Real>(a: T, b: T) -> T {
    if a < b { a } else { b }
}

/// Whether any lane holds true.
#[inline(always)]
pub fn any<const L: usize>(lanes: impl Fn(usize) -> bool) -> bool {
    let mut found = false;
    for lane in 0..L {
        found |= lanes(lane);
    }
    found
}

/// Takes a distance among the k smallest of its lane, which ascend.
#[inline(always)]
pub fn insert<T: Real>(nearest: &mut [[T; LANES]], mut distance: [T; LANES]) {
    for held in nearest {
        for lane in 0..LANES {
            let (near, far) =
                if distance[lane] < held[lane] { (distance[lane], held[lane]) } else { (held[lane], distance[lane]) };
            (held[lane], distance[lane]) = (near, far);
        }
    }
}
