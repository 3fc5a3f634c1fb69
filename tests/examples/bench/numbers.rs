//! Samples of durations, and their line in the table.

use std::time::Duration;

/// Durations in milliseconds, sorted.
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    /// Takes `count` of them.
    pub(crate) fn take(count: usize, mut one: impl FnMut() -> Duration) -> Self {
        let mut taken: Vec<f64> = (0..count).map(|_| one().as_secs_f64() * 1000.0).collect();
        taken.sort_by(f64::total_cmp);
        Self(taken)
    }

    pub(crate) fn p50(&self) -> f64 {
        self.at(50)
    }

    pub(crate) fn p99(&self) -> f64 {
        self.at(99)
    }

    fn at(&self, percent: usize) -> f64 {
        let index = (self.0.len() * percent / 100).min(self.0.len() - 1);
        self.0[index]
    }
}

/// One line; with the aim for its median where there is one.
pub(crate) fn row(name: &str, sample: &Sample, aim: Option<f64>) {
    let aim =
        aim.map(|aim| format!("{aim:.1}{}", if sample.p50() <= aim { "" } else { " !" })).unwrap_or_default();
    println!("{name:<58} {:>9.2} {:>9.2} {aim:>9}", sample.p50(), sample.p99());
}
