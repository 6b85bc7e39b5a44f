// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Seeded random numbers: an equal seed gives equal traffic on every machine.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

/// A stream of random numbers that depends only on `seed` and `stream`.
pub struct Random(Pcg64);

impl Random {
    /// `stream` separates the uses of one seed (arrivals, sizes, …), so that more draws of one do
    /// not shift another.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut bytes = [0u8; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&stream.to_le_bytes());
        bytes[16..24].copy_from_slice(&0x696d_7463_7000_0001u64.to_le_bytes());
        let mut rng = Pcg64::from_seed(bytes);
        // Neighbouring seeds give related first outputs, so skip them.
        for _ in 0..16 {
            rng.next_u64();
        }
        Random(rng)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..n (n > 0).
    pub fn below(&mut self, n: usize) -> usize {
        ((self.unit() * n as f64) as usize).min(n - 1)
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// Pareto bounded to [low, high]: density ∝ x^-(shape+1) in between.
#[derive(Clone, Copy, Debug)]
pub struct BoundedPareto {
    shape: f64,
    low: f64,
    high: f64,
}

impl BoundedPareto {
    /// The distribution with this mean: solves for the lower bound.
    pub fn with_mean(mean: f64, shape: f64, high: f64) -> Result<Self, String> {
        if !(shape > 0.0 && shape != 1.0 && mean > 0.0 && high > mean) {
            return Err(format!("no Pareto of shape {shape} and mean {mean} below {high}"));
        }
        // The mean rises with the lower bound, from near 0 to `high`: bisect.
        let (mut below, mut above) = (mean * 1e-6, mean);
        for _ in 0..200 {
            let middle = 0.5 * (below + above);
            let trial = BoundedPareto { shape, low: middle, high };
            if trial.mean() < mean {
                below = middle;
            } else {
                above = middle;
            }
        }
        Ok(BoundedPareto { shape, low: 0.5 * (below + above), high })
    }

    pub fn mean(&self) -> f64 {
        let a = self.shape;
        let weight = a * self.low.powf(a) / (1.0 - (self.low / self.high).powf(a));
        weight * (self.low.powf(1.0 - a) - self.high.powf(1.0 - a)) / (a - 1.0)
    }

    pub fn sample(&self, random: &mut Random) -> f64 {
        let tail = 1.0 - (self.low / self.high).powf(self.shape);
        self.low / (1.0 - random.unit() * tail).powf(1.0 / self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_reproduces_and_another_does_not() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..8).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 1), draw(1, 1));
        assert_ne!(draw(1, 1), draw(2, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
    }

    #[test]
    fn the_exponential_has_its_mean() {
        let mut random = Random::new(7, 0);
        let n = 200_000;
        let mean = (0..n).map(|_| random.exponential(3.0)).sum::<f64>() / n as f64;
        assert!((mean - 3.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn the_bounded_pareto_has_the_mean_that_was_asked_for() {
        let pareto = BoundedPareto::with_mean(60e3, 1.2, 2e6).unwrap();
        assert!((pareto.mean() - 60e3).abs() < 1.0);
        let mut random = Random::new(3, 0);
        let n = 400_000;
        let sizes: Vec<f64> = (0..n).map(|_| pareto.sample(&mut random)).collect();
        let mean = sizes.iter().sum::<f64>() / n as f64;
        assert!((mean / 60e3 - 1.0).abs() < 0.02, "{mean}");
        assert!(sizes.iter().all(|s| *s >= pareto.low && *s <= 2e6 * 1.000_001));
    }

    #[test]
    fn a_mean_above_the_bound_is_refused() {
        assert!(BoundedPareto::with_mean(60e3, 1.2, 50e3).is_err());
        assert!(BoundedPareto::with_mean(60e3, 1.0, 2e6).is_err());
    }
}
