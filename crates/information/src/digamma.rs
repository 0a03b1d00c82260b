//! The digamma function at positive integers, ψ(n) = −γ + 1 + 1/2 + … + 1/(n−1), as a table: the estimators need it
//! nowhere else.

use std::borrow::Cow;
use std::sync::LazyLock;

/// The Euler–Mascheroni constant γ.
const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

/// ψ(1) … ψ(largest).
pub struct Digamma(Cow<'static, [f64]>);

/// Entries computed once for all estimates: more than samples usually need.
const SHARED: usize = 1 << 16;
static TABLE: LazyLock<Vec<f64>> = LazyLock::new(|| Digamma::table(SHARED));

impl Digamma {
    pub fn up_to(largest: usize) -> Self {
        Self(if largest <= SHARED { Cow::Borrowed(&*TABLE) } else { Cow::Owned(Self::table(largest)) })
    }

    fn table(largest: usize) -> Vec<f64> {
        let mut table = Vec::with_capacity(largest + 1);
        table.push(f64::NAN);
        // Kahan summation: an entry is right to the last bit or two, however far down the table.
        let (mut sum, mut lost) = (-EULER_GAMMA, 0.0);
        for n in 1..=largest {
            table.push(sum);
            let term = 1.0 / n as f64 - lost;
            let next = sum + term;
            lost = (next - sum) - term;
            sum = next;
        }
        table
    }

    /// ψ(n) for 1 ≤ n ≤ `largest`. Panics beyond the table; NaN at 0, where ψ has a pole.
    pub fn at(&self, n: usize) -> f64 {
        self.0[n]
    }

    /// ψ(n), ψ(n + 1), … as far as the table goes.
    pub fn from(&self, n: usize) -> &[f64] {
        &self.0[n..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_known_values() {
        let digamma = Digamma::up_to(100_000);
        // Abramowitz and Stegun, table 6.1, and the asymptotic series ln n − 1/2n − 1/12n² + 1/120n⁴.
        assert_eq!(digamma.at(1), -EULER_GAMMA);
        assert!((digamma.at(2) - 0.422_784_335_098_467_1).abs() < 1e-15);
        assert!((digamma.at(10) - 2.251_752_589_066_721).abs() < 1e-14);
        for n in [100_usize, 2_000, 100_000] {
            let x = n as f64;
            let series = x.ln() - 0.5 / x - 1.0 / (12.0 * x * x) + 1.0 / (120.0 * x.powi(4));
            assert!((digamma.at(n) - series).abs() < 1e-14, "ψ({n})");
        }
    }
}
