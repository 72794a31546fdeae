//! What was measured of one thing, round by round, and what stands for all of it.

/// One value a round; `None` where there was none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Samples(Vec<Option<f64>>);

impl Samples {
    pub(crate) fn push(&mut self, value: Option<f64>) {
        self.0.push(value);
    }

    pub(crate) fn median(&self) -> Option<f64> {
        quantile(self.0.iter().flatten().copied().collect(), 0.5)
    }

    /// How many times as much as `base`: the median over rounds of the two that were measured
    /// side by side, so that a machine that slows down slows down both.
    pub(crate) fn ratio(&self, base: &Self) -> Option<f64> {
        self.pairs(base, |value, base| value / base)
    }

    /// How much more than `base`, in the same way.
    pub(crate) fn excess(&self, base: &Self) -> Option<f64> {
        self.pairs(base, |value, base| value - base)
    }

    fn pairs(&self, base: &Self, compare: impl Fn(f64, f64) -> f64) -> Option<f64> {
        let pairs = self.0.iter().zip(&base.0);
        quantile(
            pairs.filter_map(|(value, base)| Some(compare((*value)?, (*base)?))).collect(),
            0.5,
        )
    }
}

impl FromIterator<Option<f64>> for Samples {
    fn from_iter<T: IntoIterator<Item = Option<f64>>>(values: T) -> Self {
        Self(values.into_iter().collect())
    }
}

/// The value below which `part` of all lie.
pub(crate) fn quantile(mut values: Vec<f64>, part: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    values.get((last as f64 * part).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        values.iter().map(|value| Some(*value)).collect()
    }

    #[test]
    fn the_median_is_the_one_in_the_middle_whatever_the_order() {
        assert_eq!(samples(&[9.0, 1.0, 5.0]).median(), Some(5.0));
        assert_eq!(Samples::default().median(), None);
        assert_eq!([None, Some(3.0), None].into_iter().collect::<Samples>().median(), Some(3.0));
    }

    #[test]
    fn quantiles_reach_from_the_least_to_the_most() {
        let hundred: Vec<f64> = (0..=100).map(f64::from).collect();
        for part in [0.0, 0.5, 0.99, 1.0] {
            assert_eq!(quantile(hundred.clone(), part), Some(part * 100.0));
        }
        assert_eq!(quantile(Vec::new(), 0.5), None);
    }

    #[test]
    fn a_round_in_which_the_machine_was_slow_does_not_change_the_ratio() {
        let (span, floor) = (samples(&[12.0, 120.0, 12.0]), samples(&[10.0, 100.0, 10.0]));
        assert_eq!(span.ratio(&floor), Some(1.2));
        assert_eq!(span.excess(&floor), Some(2.0));
    }

    #[test]
    fn only_rounds_that_both_have_count() {
        let span = [Some(3.0), None, Some(8.0)].into_iter().collect::<Samples>();
        let floor = [None, Some(1.0), Some(4.0)].into_iter().collect::<Samples>();
        assert_eq!(span.ratio(&floor), Some(2.0));
        assert_eq!(span.ratio(&Samples::default()), None);
    }
}
