// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! From the lines of past days to a bandwidth, and to how long it may be relied upon
//! [EN §3.3.1].

use crate::settings::Bound;

/// B0(i) and B1(i) of one past day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub b0_bps: f64,
    pub b1_bps_per_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// B̂0 = mean of B0(i): the bandwidth answer.
    pub b0_hat_bps: f64,
    /// Standard deviation of B0(i): how much days differ. Ours: the answer's interval.
    pub b0_sigma_bps: f64,
    /// B̄1 = mean of B1(i).
    pub b1_mean_bps_per_s: f64,
    /// σ: standard deviation of B1(i).
    pub b1_sigma_bps_per_s: f64,
    /// S = max(|B̄1 − z·σ|, |B̄1 + z·σ|): the fastest change to reckon with.
    pub s_bps_per_s: f64,
    /// ε, in bits per second.
    pub epsilon_bps: f64,
    /// τ = ε/S; `None` when S = 0: nothing ever changed.
    pub tau_s: Option<f64>,
}

/// `None` with fewer than two days: σ is not defined.
pub fn estimate(days: &[Line], z: f64, epsilon: Bound) -> Option<Estimate> {
    if days.len() < 2 {
        return None;
    }
    let (b0_hat, b0_sigma) = mean_and_deviation(days.iter().map(|d| d.b0_bps));
    let (b1_mean, b1_sigma) = mean_and_deviation(days.iter().map(|d| d.b1_bps_per_s));
    let s = (b1_mean - z * b1_sigma).abs().max((b1_mean + z * b1_sigma).abs());
    // A line may begin below 0; no change is allowed from nothing.
    let epsilon_bps = epsilon.bps(Some(b0_hat.max(0.0)))?;
    Some(Estimate {
        b0_hat_bps: b0_hat,
        b0_sigma_bps: b0_sigma,
        b1_mean_bps_per_s: b1_mean,
        b1_sigma_bps_per_s: b1_sigma,
        s_bps_per_s: s,
        epsilon_bps,
        tau_s: (s > 0.0).then(|| epsilon_bps / s),
    })
}

/// A sample's deviation: the divisor is N − 1.
pub(super) fn mean_and_deviation(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / n;
    let variance = values.map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(of: &[(f64, f64)]) -> Vec<Line> {
        of.iter().map(|&(b0_bps, b1_bps_per_s)| Line { b0_bps, b1_bps_per_s }).collect()
    }

    /// By hand: B0 = 40, 50, 60 M → B̂0 = 50 M, σ0 = 10 M. B1 = −1, 0, 4 k → B̄1 = 1 k,
    /// σ = √((4 + 1 + 9)/2) k = √7 k; S = (1 + 2√7) k = 6.2915 k;
    /// ε = 10 % of 50 M = 5 M; τ = 5 M / 6.2915 k/s = 794.72 s.
    #[test]
    fn three_days_give_the_values_of_the_equations() {
        let days = lines(&[(40e6, -1e3), (50e6, 0.0), (60e6, 4e3)]);
        let e = estimate(&days, 2.0, Bound::Share(0.1)).unwrap();
        assert!((e.b0_hat_bps - 50e6).abs() < 1e-3);
        assert!((e.b0_sigma_bps - 10e6).abs() < 1e-3);
        assert!((e.b1_mean_bps_per_s - 1e3).abs() < 1e-9);
        assert!((e.b1_sigma_bps_per_s - 7f64.sqrt() * 1e3).abs() < 1e-9);
        let s = (1.0 + 2.0 * 7f64.sqrt()) * 1e3;
        assert!((e.s_bps_per_s - s).abs() < 1e-9);
        assert!((e.epsilon_bps - 5e6).abs() < 1e-3);
        assert!((e.tau_s.unwrap() - 794.72).abs() < 0.01);
    }

    /// A falling path: |B̄1 − zσ| is the greater one. ε = 2 M absolute; B1 = −3, −5 k:
    /// B̄1 = −4 k, σ = √2 k, S = 4 k + 2√2 k = 6.8284 k, τ = 292.89 s.
    #[test]
    fn a_falling_bandwidth_counts_as_fast_as_a_rising_one() {
        let down = estimate(&lines(&[(5e7, -3e3), (5e7, -5e3)]), 2.0, Bound::Bps(2e6)).unwrap();
        let up = estimate(&lines(&[(5e7, 3e3), (5e7, 5e3)]), 2.0, Bound::Bps(2e6)).unwrap();
        assert!((down.s_bps_per_s - (4.0 + 2.0 * 2f64.sqrt()) * 1e3).abs() < 1e-9);
        assert_eq!(down.tau_s, up.tau_s);
        assert!((down.tau_s.unwrap() - 292.89).abs() < 0.01);
    }

    #[test]
    fn days_without_change_need_no_new_advice() {
        let e = estimate(&lines(&[(1e6, 0.0), (1e6, 0.0)]), 2.0, Bound::Share(0.1)).unwrap();
        assert_eq!((e.s_bps_per_s, e.tau_s), (0.0, None));
    }

    #[test]
    fn one_day_is_no_sample() {
        assert_eq!(estimate(&lines(&[(1e6, 1.0)]), 2.0, Bound::Share(0.1)), None);
        assert_eq!(estimate(&[], 2.0, Bound::Share(0.1)), None);
    }

    proptest! {
        #[test]
        fn more_confidence_never_lengthens_the_time(
            days in prop::collection::vec((1e3..1e10f64, -1e5..1e5f64), 2..40),
            z in 0.0..4.0f64, more in 0.0..2.0f64,
        ) {
            let days = lines(&days);
            let of = |z| estimate(&days, z, Bound::Share(0.1)).unwrap().tau_s;
            if let (Some(less), Some(greater)) = (of(z), of(z + more)) {
                prop_assert!(greater <= less * (1.0 + 1e-12));
            }
        }

        #[test]
        fn over_tau_the_fastest_change_is_epsilon(
            days in prop::collection::vec((1e3..1e10f64, -1e5..1e5f64), 2..40),
            share in 0.001..1.0f64,
        ) {
            let e = estimate(&lines(&days), 2.0, Bound::Share(share)).unwrap();
            if let Some(tau_s) = e.tau_s {
                prop_assert!((tau_s * e.s_bps_per_s - e.epsilon_bps).abs()
                    <= 1e-9 * e.epsilon_bps);
            }
            prop_assert!(e.s_bps_per_s >= e.b1_mean_bps_per_s.abs());
        }
    }
}
