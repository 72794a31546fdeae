//! How cost grows with size: the slope on a plot with logarithmic axes, 1 where it grows in
//! proportion and 2 where it grows with the square.

use super::unit::Unit;
use super::who::Who;

/// The steepest that is still taken for a straight line. A quadratic loop bends it to 2; caches that
/// are left behind, pools that grow and other work on the machine bend it, too: with such work the
/// floor, which has no loop, was seen at 1.4, and beyond 1.5 where there was but one round.
pub(crate) const STEEPEST: f64 = 1.5;

/// What was measured at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) size: f64,
    pub(crate) seconds: f64,
}

/// How the cost of one thing grows for one contestant.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    /// What the sizes are sizes of.
    pub(crate) title: &'static str,
    pub(crate) who: Who,
    pub(crate) points: Vec<Point>,
}

impl Growth {
    /// Whether the line has no corner upwards; `None` if there is no line.
    pub(crate) fn is_straight(&self) -> Option<bool> {
        steepest(&self.points).map(|slope| slope <= STEEPEST)
    }

    /// One line: the values, the slope, and for mcp-span the verdict.
    pub(crate) fn told(&self) -> String {
        let values: Vec<String> =
            self.points.iter().map(|point| Unit::Millis.show(point.seconds)).collect();
        let shown =
            |slope: Option<f64>| slope.map_or("-".to_owned(), |slope| format!("{slope:.2}"));
        let (fit, most) = (shown(slope(&self.points)), shown(steepest(&self.points)));
        let verdict = match self.is_straight() {
            _ if self.who != Who::Span => "",
            Some(true) => ", holds",
            Some(false) => ", MISSED",
            None => ", not measured",
        };
        let (title, who, values) = (self.title, self.who.name(), values.join(", "));
        format!("{title}, {who}: {values}; slope {fit}, steepest {most}{verdict}")
    }
}

/// The line that lies closest to all points.
fn slope(points: &[Point]) -> Option<f64> {
    let count = points.len() as f64;
    let logs = || points.iter().map(|point| (point.size.ln(), point.seconds.ln()));
    let mean_x = logs().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = logs().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let product: f64 = logs().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    Some(product / spread).filter(|slope| slope.is_finite())
}

/// The steepest way from one point to the next.
fn steepest(points: &[Point]) -> Option<f64> {
    points.windows(2).filter_map(slope).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(cost: impl Fn(f64) -> f64) -> Vec<Point> {
        [1.0, 16.0, 64.0, 256.0].map(|size| Point { size, seconds: cost(size) }).to_vec()
    }

    fn growth(cost: impl Fn(f64) -> f64) -> Growth {
        Growth { title: "answers of 1, 16, 64, 256 MB", who: Who::Span, points: points(cost) }
    }

    fn is_near(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value - expected).abs() < 0.01)
    }

    #[test]
    fn proportional_cost_has_the_slope_one_and_quadratic_cost_two() {
        assert!(is_near(slope(&points(|size| 3.0 * size)), 1.0));
        assert!(is_near(slope(&points(|size| 0.1 * size * size)), 2.0));
        assert!(is_near(slope(&points(|_| 5.0)), 0.0));
    }

    #[test]
    fn a_fixed_cost_makes_no_corner() {
        let growth = growth(|size| 0.5 + 0.01 * size);
        assert_eq!(growth.is_straight(), Some(true));
        assert!(growth.told().ends_with("holds"), "{}", growth.told());
    }

    #[test]
    fn a_quadratic_corner_shows_even_if_only_the_last_size_has_it() {
        let cornered = growth(|size| size + if size > 100.0 { size * size / 30.0 } else { 0.0 });
        assert!(slope(&cornered.points).unwrap() < STEEPEST);
        assert_eq!(cornered.is_straight(), Some(false));
        assert!(cornered.told().ends_with("MISSED"), "{}", cornered.told());
    }

    #[test]
    fn one_point_is_no_line() {
        let alone = [Point { size: 1.0, seconds: 1.0 }];
        assert_eq!((slope(&alone), steepest(&alone)), (None, None));
        assert_eq!(slope(&[]), None);
    }
}
