//! The table of docs/performance.md, with its date and machine.

use super::figure::Figure;
use super::results::Results;
use super::table::columns;
use super::who::Who;

/// Where and when it was measured.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Such as `2026-11-15`.
    pub(crate) day: String,
    /// The processor's name and its cores.
    pub(crate) machine: String,
    /// How many rounds the medians are taken over, at least and at most.
    pub(crate) rounds: [usize; 2],
    /// Names of programs with their versions.
    pub(crate) versions: Vec<(Who, String)>,
}

impl Setting {
    fn version(&self, who: Who) -> Option<&str> {
        self.versions.iter().find(|(one, _)| *one == who).map(|(_, version)| version.as_str())
    }
}

/// Everything between the markers. `picture` is where the picture is, as seen from the page.
pub(crate) fn section(results: &Results, setting: &Setting, picture: &str) -> String {
    let Setting { day, machine, .. } = setting;
    let shown: Vec<Who> = columns(results).into_iter().filter(|who| *who != Who::Direct).collect();
    let mut text = format!("Measured on {day}, {machine}, by `make bench-docs`.\n\n");
    text += &format!("![Bridges side by side]({picture})\n\n");
    text += &table(results, setting, &shown);
    let [least, most] = setting.rounds;
    text += &format!(
        "\nThe *floor* is a raw pass-through that only carries bytes. In parentheses: how many \
         times what the floor takes, for mcp-span; how many times what mcp-span takes, for the \
         others. All take turns with the same server on loopback. Values are medians of {least} to \
         {most} rounds; what takes over 15 s is measured once, and memory and processor time are \
         looked at once. The others are started so that it is to their \
         advantage: quiet, with the transport named and a limit on sizes raised where there is \
         one. On another machine only the ratios mean something.\n"
    );
    if let Some(direct) = results.median(Figure::JsonP50, Who::Direct) {
        let direct = Figure::JsonP50.unit().show(direct);
        text += &format!("A call straight to the server, without a bridge, takes {direct}.\n");
    }
    text + &failures(results)
}

fn table(results: &Results, setting: &Setting, shown: &[Who]) -> String {
    let names = shown.iter().map(|who| match setting.version(*who) {
        Some(version) => format!("{} {version}", who.name()),
        None => who.name().to_owned(),
    });
    let mut text = line("", names);
    text += &format!("|---|{}\n", "--:|".repeat(shown.len()));
    for figure in Figure::ALL {
        text += &line(figure.title(), shown.iter().map(|who| results.compared(figure, *who)));
    }
    text
}

fn line(first: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!(" {cell} |")).collect();
    format!("| {first} |{cells}\n")
}

/// What stands behind the words in the table.
fn failures(results: &Results) -> String {
    if results.failures.is_empty() {
        return String::new();
    }
    let told = results.failures.iter().map(|named| {
        format!("- {}, {}: {}\n", named.who.name(), named.what, in_one_line(&named.failure.text))
    });
    format!("\nWhat failed:\n\n{}", told.collect::<String>())
}

/// Texts of other programs must not break the list, nor be taken for marks.
fn in_one_line(text: &str) -> String {
    let cut: String = text.chars().take(160).collect();
    let safe: String =
        cut.chars().map(|c| if c.is_control() || c == '`' { ' ' } else { c }).collect();
    format!("`{}`", safe.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::failure::Failure;

    #[test]
    fn the_section_has_date_machine_picture_versions_and_failures() {
        let mut results = Results::default();
        results.push(Figure::JsonP50, Who::Direct, Some(23e-6));
        results.push(Figure::JsonP50, Who::Floor, Some(60e-6));
        results.push(Figure::JsonP50, Who::Span, Some(72e-6));
        results.push(Figure::JsonP50, Who::McpRemote, Some(950e-6));
        let failure = Failure::hang("no\n`answer`");
        results.fail(&[Figure::Request], Who::McpRemote, failure);
        let setting = Setting {
            day: "2026-11-15".into(),
            machine: "a processor, 2 cores".into(),
            rounds: [3, 15],
            versions: vec![(Who::McpRemote, "0.15.1".into())],
        };
        let text = section(&results, &setting, "bench.svg");
        for part in [
            "Measured on 2026-11-15, a processor, 2 cores, by `make bench-docs`.",
            "](bench.svg)",
            "|  | floor | mcp-span | mcp-remote 0.15.1 |\n|---|--:|--:|--:|\n",
            "| sequential call, JSON answers, p50 | 60.0 µs | 72.0 µs (1.20 x) | 950 µs (13.2 x) |",
            "| 16 MB request | - | - | hangs |",
            "medians of 3 to 15 rounds",
            "takes 23.0 µs",
            "- mcp-remote, 16 MB request: `no  answer`\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
}
