//! The picture: bars for the figures that say most, readable in light and in dark.

use std::fmt::Write as _;

use super::figure::Figure;
use super::results::Results;
use super::table::columns;
use super::who::Who;

/// The panels, two in a row, with what is better.
const PANELS: [(Figure, &str); 6] = [
    (Figure::Start, "start to the answer to initialize"),
    (Figure::JsonP50, "sequential call, p50"),
    (Figure::JsonRate, "calls a second, 64 in flight (more is better)"),
    (Figure::LargeEvent, "64 MB answer in one SSE event"),
    (Figure::LargeEventPeak, "memory at the peak of that"),
    (Figure::Idle, "idle memory"),
];

const PANEL_WIDTH: usize = 440;
const NAME_WIDTH: usize = 112;
const VALUE_WIDTH: usize = 80;
const BAR: usize = 14;
const STEP: usize = 20;
const HEAD: usize = 34;
const FOOT: usize = 18;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#1f2328}\
.title{font-weight:600}.value{font-size:11px}.small{font-size:11px;fill:#59636e}\
.other{fill:#8c959f}.floor{fill:#c9d1d9}.span{fill:#1a7f37}.page{fill:#ffffff}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}\
.other{fill:#6e7681}.floor{fill:#3d444d}.span{fill:#3fb950}.page{fill:#0d1117}}";

/// The picture, as SVG; `caption` is the line below it.
pub(crate) fn picture(results: &Results, caption: &str) -> String {
    let shown: Vec<Who> = columns(results).into_iter().filter(|who| *who != Who::Direct).collect();
    let panel_height = HEAD + shown.len() * STEP + FOOT;
    let (width, height) = (2 * PANEL_WIDTH + 20, PANELS.len().div_ceil(2) * panel_height + 30);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>MCP bridges side by side</title>\n\
         <style>{STYLE}</style>\n<rect class=\"page\" width=\"{width}\" height=\"{height}\" \
         rx=\"6\"/>\n"
    );
    for (at, (figure, title)) in PANELS.into_iter().enumerate() {
        let (x, y) = (20 + at % 2 * PANEL_WIDTH, at / 2 * panel_height);
        svg += &panel(results, figure, title, &shown, (x, y));
    }
    let y = height - 12;
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "<text class=\"small\" x=\"20\" y=\"{y}\">{}</text>", escaped(caption));
    svg + "</svg>\n"
}

fn panel(
    results: &Results,
    figure: Figure,
    title: &str,
    shown: &[Who],
    (x, y): (usize, usize),
) -> String {
    let lengths: Vec<Option<f64>> = shown
        .iter()
        .map(|who| results.median(figure, *who).map(|value| figure.unit().bar(value)))
        .collect();
    let longest = lengths.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut text =
        format!("<text class=\"title\" x=\"{x}\" y=\"{}\">{}</text>\n", y + 24, escaped(title));
    for (at, (who, length)) in shown.iter().zip(lengths).enumerate() {
        let top = y + HEAD + at * STEP;
        let room = (PANEL_WIDTH - 20 - NAME_WIDTH - VALUE_WIDTH) as f64;
        // Whatever was measured is at least a line that can be seen.
        let bar = length.map_or(0.0, |length| (length / longest * room).max(1.0));
        let class = match who {
            Who::Span => "span",
            Who::Floor => "floor",
            _ => "other",
        };
        let (name, value) = (escaped(who.name()), escaped(&results.shown(figure, *who)));
        let (from, base) = (x + NAME_WIDTH, top + 11);
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{name}</text>\
             <rect class=\"{class}\" x=\"{from}\" y=\"{top}\" width=\"{bar:.1}\" height=\"{BAR}\"/>\
             <text class=\"value\" x=\"{:.1}\" y=\"{base}\">{value}</text>",
            from - 6,
            from as f64 + bar + 5.0,
        );
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::failure::Failure;

    fn measured() -> Results {
        let mut results = Results::default();
        for (who, value) in [(Who::Direct, 9.0), (Who::Floor, 0.002), (Who::Span, 0.003)] {
            results.push(Figure::Start, who, Some(value));
        }
        results.push(Figure::Start, Who::McpRemote, Some(0.4));
        results.fail(&[Figure::LargeEvent], Who::McpRemote, Failure::hang("no answer"));
        results
    }

    /// The widths of the bars of the first panel, in the order of the columns.
    fn first_widths(svg: &str) -> Vec<f64> {
        let bars = svg.lines().filter(|line| line.contains("height=\"14\"")).take(3);
        let width = |line: &str| -> Option<f64> {
            line.split_once("width=\"")?.1.split_once('"')?.0.parse().ok()
        };
        bars.filter_map(width).collect()
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_never_invisible() {
        let svg = picture(&measured(), "a machine");
        let widths = first_widths(&svg);
        assert_eq!(widths.len(), 3);
        assert!((widths[2] - 228.0).abs() < 0.1, "{widths:?}");
        assert!((widths[1] - 228.0 * 0.003 / 0.4).abs() < 0.1, "{widths:?}");
        assert!(widths.iter().all(|width| *width >= 1.0));
    }

    #[test]
    fn it_is_whole_names_everyone_and_knows_the_dark() {
        let svg = picture(&measured(), "x < y & \"z\"");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert!(svg.contains(">mcp-remote<") && svg.contains(">hangs<"));
        assert!(!svg.contains(">direct<"));
        assert!(svg.contains("x &lt; y &amp; &quot;z&quot;"));
    }
}
