//! The numbers that scikit-learn's networks draw: numpy's `RandomState`, a Mersenne Twister, as far as MLPClassifier uses it.

/// `numpy.random.RandomState(seed)`.
pub struct RandomState(rand_mt::Mt);

impl RandomState {
    pub fn new(seed: u32) -> Self {
        Self(rand_mt::Mt::new(seed))
    }

    /// A double in [0, 1), of 53 random bits from two words.
    pub fn uniform(&mut self) -> f64 {
        let (high, low) = (f64::from(self.0.next_u32() >> 5), f64::from(self.0.next_u32() >> 6));
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// Uniform in 0..=`largest`: words cut to the bits of `largest`, until one is not above it.
    fn up_to(&mut self, largest: u32) -> u32 {
        let mask = u32::MAX.checked_shr(largest.leading_zeros()).unwrap_or(0);
        loop {
            let value = self.0.next_u32() & mask;
            if value <= largest {
                return value;
            }
        }
    }

    /// `RandomState.permutation`, for fewer than 2³² items.
    pub fn permutation(&mut self, items: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..items).collect();
        for last in (1..items).rev() {
            order.swap(last, self.up_to(last as u32) as usize);
        }
        order
    }
}
