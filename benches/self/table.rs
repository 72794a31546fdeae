//! The table: one line for each thing measured, and a verdict on those that have a limit.

use super::contest::{Samples, Who};

/// mcp-span may take this much more than the floor.
const LIMIT: f64 = 1.5;

/// How a value is shown; values are seconds, seconds a call, or bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Micros,
    Millis,
    /// Shown as calls a second.
    Rate,
    Mebibytes,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Micros => format!("{:.1} µs", value * 1e6),
            Self::Millis => format!("{:.2} ms", value * 1e3),
            Self::Rate => format!("{:.0} /s", 1.0 / value),
            Self::Mebibytes => format!("{:.1} MiB", value / (1024.0 * 1024.0)),
        }
    }
}

struct Row {
    name: String,
    cells: [String; 3],
    ratio: Option<f64>,
}

/// What has been measured so far.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
    /// What is judged by, and its ratio.
    verdicts: Vec<(String, Option<f64>)>,
}

impl Table {
    /// A line of medians.
    pub(crate) fn medians(&mut self, name: &str, unit: Unit, samples: &Samples) {
        let values = Who::ALL.map(|who| samples.median(who));
        self.add(name, unit, values, samples.ratio());
    }

    /// A line of medians that also has a limit.
    pub(crate) fn judged(&mut self, name: &str, unit: Unit, samples: &Samples) {
        self.verdicts.push((name.to_owned(), samples.ratio()));
        self.medians(name, unit, samples);
    }

    /// A line of single values.
    pub(crate) fn values(&mut self, name: &str, unit: Unit, values: [Option<f64>; 3]) {
        let ratio = values[Who::Span as usize].zip(values[Who::Floor as usize]);
        self.add(name, unit, values, ratio.map(|(span, floor)| span / floor));
    }

    fn add(&mut self, name: &str, unit: Unit, values: [Option<f64>; 3], ratio: Option<f64>) {
        let cells = values.map(|value| value.map_or_else(|| "-".to_owned(), |v| unit.show(v)));
        self.rows.push(Row { name: name.to_owned(), cells, ratio });
    }

    /// Prints all of it.
    pub(crate) fn print(&self) {
        let [direct, floor, span] = Who::ALL.map(Who::name);
        println!("{:<38}{direct:>14}{floor:>14}{span:>14}{:>9}", "", "ratio");
        for Row { name, cells: [direct, floor, span], ratio } in &self.rows {
            let ratio = shown(*ratio);
            println!("{name:<38}{direct:>14}{floor:>14}{span:>14}{ratio:>9}");
        }
        println!("\nratio: what mcp-span takes for each that the floor takes; over 1 is slower or");
        println!("more. Medians over rounds, the ratio that of the pairs of each round.\n");
        for (name, ratio) in &self.verdicts {
            let verdict = match ratio {
                Some(ratio) if *ratio <= LIMIT => "within",
                Some(_) => "OVER",
                None => "not measured against",
            };
            println!("{name:<28}{:>9}  {verdict} {LIMIT} x of the floor", shown(*ratio));
        }
    }
}

fn shown(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2} x"))
}
