// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! One day's line: b = B0 + B1·t by least squares over [t0, t1] [EN §3.3].

/// One observation: time since the window's beginning, available bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub t_s: f64,
    pub b_bps: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub samples: usize,
    /// B0: available bandwidth at the window's beginning.
    pub b0_bps: f64,
    /// B1: how fast it changes.
    pub b1_bps_per_s: f64,
    /// Goodness of fit; unknown when b does not vary at all (0/0).
    pub r2: Option<f64>,
}

/// The least-squares line; `None` without two different times.
///
/// ```text
/// B1 = (n Σbt − Σb Σt) / (n Σt² − (Σt)²)      B0 = (Σb − B1 Σt) / n
/// R² = 1 − Σ(b − b̂)² / (Σb² − (Σb)²/n)
/// ```
///
/// We subtract the means of t and b first. In exact arithmetic that changes nothing. In doubles it keeps the
/// digits that the difference of two large sums loses.
pub fn least_squares(samples: &[Sample]) -> Option<Fit> {
    let n = samples.len() as f64;
    let (mut t_sum, mut b_sum) = (0.0, 0.0);
    for s in samples {
        t_sum += s.t_s;
        b_sum += s.b_bps;
    }
    let (t_mean, b_mean) = (t_sum / n, b_sum / n);
    let (mut stt, mut stb, mut sbb) = (0.0, 0.0, 0.0);
    for s in samples {
        let (t, b) = (s.t_s - t_mean, s.b_bps - b_mean);
        stt += t * t;
        stb += t * b;
        sbb += b * b;
    }
    if samples.len() < 2 || stt <= 0.0 {
        return None;
    }
    let b1 = stb / stt;
    let b0 = b_mean - b1 * t_mean;
    let residual: f64 = samples.iter().map(|s| (s.b_bps - (b0 + b1 * s.t_s)).powi(2)).sum();
    let r2 = (sbb > 0.0).then(|| 1.0 - residual / sbb);
    Some(Fit { samples: samples.len(), b0_bps: b0, b1_bps_per_s: b1, r2 })
}

/// The line through the samples of one day. Where it is read does not change it: as long as a window has the same
/// samples, it has this line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DayLine {
    first_us: i64,
    /// Its time runs from the first sample on.
    fit: Fit,
}

impl DayLine {
    /// Through (time, available bandwidth); `None` without two different times.
    pub fn through(samples: &[(i64, f64)]) -> Option<Self> {
        let first_us = samples.first()?.0;
        let sample = |s: &(i64, f64)| Sample { t_s: (s.0 - first_us) as f64 / 1e6, b_bps: s.1 };
        let fit = least_squares(&samples.iter().map(sample).collect::<Vec<_>>())?;
        Some(DayLine { first_us, fit })
    }

    /// The same line, with the time of a window that begins then.
    pub fn in_window(&self, start_us: i64) -> Fit {
        let early_s = (self.first_us - start_us) as f64 / 1e6;
        Fit { b0_bps: self.fit.b0_bps - self.fit.b1_bps_per_s * early_s, ..self.fit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples(of: &[(f64, f64)]) -> Vec<Sample> {
        of.iter().map(|&(t_s, b_bps)| Sample { t_s, b_bps }).collect()
    }

    /// By hand: n = 3, Σt = 3, Σt² = 5, Σb = 12, Σbt = 17, Σb² = 62;
    /// B1 = (3·17 − 12·3)/(3·5 − 9) = 15/6 = 2.5, B0 = (12 − 7.5)/3 = 1.5;
    /// b̂ = 1.5, 4, 6.5, residuals 0.5, −1, 0.5; R² = 1 − 1.5/(62 − 48).
    #[test]
    fn a_fit_has_the_values_of_the_equations() {
        let fit = least_squares(&samples(&[(0.0, 2.0), (1.0, 3.0), (2.0, 7.0)])).unwrap();
        assert!((fit.b1_bps_per_s - 2.5).abs() < 1e-12);
        assert!((fit.b0_bps - 1.5).abs() < 1e-12);
        assert!((fit.r2.unwrap() - (1.0 - 1.5 / 14.0)).abs() < 1e-12);
        assert_eq!(fit.samples, 3);
    }

    /// The same line; it has risen by 2.5 for each second before its first sample.
    #[test]
    fn a_days_line_is_read_where_its_window_begins() {
        let line = DayLine::through(&[(7_000_000, 2.0), (8_000_000, 3.0), (9_000_000, 7.0)]);
        let fit = line.unwrap().in_window(6_500_000);
        assert!((fit.b0_bps - (1.5 - 0.5 * 2.5)).abs() < 1e-12);
        assert!((fit.b1_bps_per_s - 2.5).abs() < 1e-12);
        assert_eq!(DayLine::through(&[(3, 1.0), (3, 9.0)]), None);
    }

    #[test]
    fn a_constant_day_has_slope_0_and_no_goodness() {
        let fit = least_squares(&samples(&[(0.0, 5e7), (60.0, 5e7), (120.0, 5e7)])).unwrap();
        assert_eq!((fit.b0_bps, fit.b1_bps_per_s, fit.r2), (5e7, 0.0, None));
    }

    #[test]
    fn one_time_alone_makes_no_line() {
        assert_eq!(least_squares(&[]), None);
        assert_eq!(least_squares(&samples(&[(3.0, 1.0)])), None);
        assert_eq!(least_squares(&samples(&[(3.0, 1.0), (3.0, 9.0)])), None);
    }

    proptest! {
        #[test]
        fn points_on_a_line_give_the_line(
            b0 in -1e9..1e9f64, b1 in -1e6..1e6f64,
            times in prop::collection::btree_set(0u32..43_200, 2..60),
        ) {
            let on_line: Vec<_> = times.iter().map(|t| {
                let t_s = f64::from(*t);
                Sample { t_s, b_bps: b0 + b1 * t_s }
            }).collect();
            let fit = least_squares(&on_line).unwrap();
            let scale = b0.abs() + b1.abs() * 43_200.0 + 1.0;
            prop_assert!((fit.b0_bps - b0).abs() < 1e-9 * scale);
            prop_assert!((fit.b1_bps_per_s - b1).abs() < 1e-9 * scale);
        }

        #[test]
        fn goodness_lies_between_0_and_1_and_order_does_not_matter(
            mut points in prop::collection::vec((0.0..3600.0f64, 0.0..1e10f64), 2..80),
        ) {
            let Some(fit) = least_squares(&samples(&points)) else { return Ok(()) };
            points.reverse();
            let again = least_squares(&samples(&points)).unwrap();
            prop_assert!((fit.b0_bps - again.b0_bps).abs() <= 1e-3 + fit.b0_bps.abs() * 1e-9);
            if let Some(r2) = fit.r2 {
                prop_assert!((-1e-9..=1.0 + 1e-9).contains(&r2), "{}", r2);
            }
        }
    }
}
