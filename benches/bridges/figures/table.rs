//! The table for a terminal, and below it what failed and which limits hold.

use super::figure::Figure;
use super::limits::{Verdict, verdicts};
use super::results::Results;
use super::sweep::Growth;
use super::who::Who;

/// The contestants that have a column.
pub(crate) fn columns(results: &Results) -> Vec<Who> {
    let all = Who::OURS.into_iter().chain(Who::PEERS);
    all.filter(|who| results.has(*who)).collect()
}

/// The table, one line a row.
pub(crate) fn table(results: &Results) -> String {
    let columns = columns(results);
    let mut rows = vec![row("", columns.iter().map(|who| who.name().to_owned()))];
    for figure in Figure::ALL {
        rows.push(row(figure.title(), columns.iter().map(|who| results.compared(figure, *who))));
    }
    let explained = "\nMedians over rounds in which all take turns. In parentheses: how many times \
                     what the floor\ntakes, for mcp-span; how many times what mcp-span takes, for \
                     the others. Over 1 is slower or more.\n";
    aligned(&rows, &[0]) + explained
}

/// All failures by name.
pub(crate) fn failures(results: &Results) -> String {
    let told = results.failures.iter().map(|named| {
        let (who, what) = (named.who.name(), &named.what);
        format!("FAILED {who}, {what}: {}\n", named.failure)
    });
    told.collect()
}

/// Every limit with what was measured, and how cost grows.
pub(crate) fn limits(results: &Results, growths: &[Growth]) -> String {
    let rows = verdicts(results).into_iter().map(|verdict| {
        let word = verdict.word().to_owned();
        let Verdict { title, measured, allowed, .. } = verdict;
        vec![title, measured, word, allowed]
    });
    let mut text = aligned(&rows.collect::<Vec<_>>(), &[0, 2, 3]);
    for growth in growths {
        text += &growth.told();
        text.push('\n');
    }
    text
}

/// Whether no limit was missed or left unmeasured.
pub(crate) fn all_hold(results: &Results, growths: &[Growth]) -> bool {
    let ours = growths.iter().filter(|growth| growth.who == Who::Span);
    verdicts(results).iter().all(|verdict| verdict.holds == Some(true))
        && ours.into_iter().all(|growth| growth.is_straight() == Some(true))
}

fn row(first: &str, others: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(others).collect()
}

/// Columns as wide as their widest cell, flush left or, if they are not in `left`, flush right.
fn aligned(rows: &[Vec<String>], left: &[usize]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            if left.contains(&at) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::failure::Failure;
    use crate::figures::sweep::Point;

    fn measured() -> Results {
        let mut results = Results::default();
        for (who, value) in [(Who::Floor, 0.002), (Who::Span, 0.003), (Who::McpRemote, 0.393)] {
            results.push(Figure::Start, who, Some(value));
        }
        results.fail(&[Figure::Request], Who::McpRemote, Failure::hang("no answer in 30 s"));
        results
    }

    #[test]
    fn a_column_for_everyone_who_was_there_and_a_row_for_everything() {
        let text = table(&measured());
        let lines: Vec<&str> = text.lines().collect();
        let names: Vec<&str> = lines[0].split_whitespace().collect();
        assert_eq!(names, ["floor", "mcp-span", "mcp-remote"]);
        assert!(lines[1].ends_with("3.00 ms (1.50 x)  393 ms (131 x)"), "{}", lines[1]);
        assert_eq!(lines[1].chars().count(), lines[0].chars().count());
        assert!(
            lines.iter().any(|line| line.starts_with("16 MB request") && line.ends_with("hangs"))
        );
        assert!(Figure::ALL.iter().all(|figure| text.contains(figure.title())));
    }

    #[test]
    fn failures_are_named() {
        let text = failures(&measured());
        assert_eq!(text, "FAILED mcp-remote, 16 MB request: hangs: no answer in 30 s\n");
    }

    #[test]
    fn every_limit_is_told_and_a_missing_one_is_no_success() {
        let points = [1.0, 2.0].map(|size| Point { size, seconds: size * size }).to_vec();
        let growth = Growth { title: "answers", who: Who::Span, points };
        let text = limits(&measured(), std::slice::from_ref(&growth));
        let start = "start to the answer to initialize       1.50 x  holds";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("not measured"));
        assert!(text.ends_with("steepest 2.00, MISSED\n"));
        assert!(!all_hold(&measured(), &[]));
    }
}
