//! Draws lines over two logarithmic axes as SVG.

use super::report::format_short;

/// Width and height of a chart.
const SIZE: (f64, f64) = (720.0, 400.0);
/// Left, top, right and bottom margin of a chart.
const MARGINS: (f64, f64, f64, f64) = (80.0, 40.0, 150.0, 50.0);
/// Colors of the lines.
const COLORS: [&str; 4] = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728"];

/// Lines over two logarithmic axes.
pub(super) struct SvgChart {
    pub(super) title: &'static str,
    /// Text below the x axis.
    pub(super) x_label: &'static str,
    /// Formats a value of the y axis.
    pub(super) format_y: fn(f64) -> String,
    /// Name and points of each line; as many lines as there are colors.
    pub(super) lines: Vec<(&'static str, Vec<(f64, f64)>)>,
}

impl SvgChart {
    /// Returns the chart as SVG.
    pub(super) fn to_svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let (left, top, right, bottom) = MARGINS;
        let (width, height) = SIZE;
        let x = LogAxis::new(points().map(|p| p.0), left, width - right);
        let y = LogAxis::new(points().map(|p| p.1), height - bottom, top);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n{}{}",
            text_element(width / 2.0, 20.0, "middle", self.title),
            text_element((x.from + x.to) / 2.0, height - 12.0, "middle", self.x_label),
        );
        for value in x.ticks() {
            let position = x.position_of(value);
            svg += &line_element((position, y.from), (position, y.to));
            svg += &text_element(position, y.from + 18.0, "middle", &format_short(value));
        }
        for value in y.ticks() {
            let position = y.position_of(value);
            svg += &line_element((x.from, position), (x.to, position));
            svg += &text_element(x.from - 8.0, position + 4.0, "end", &(self.format_y)(value));
        }
        for ((name, points), color) in self.lines.iter().zip(COLORS) {
            let positions: Vec<(f64, f64)> = points
                .iter()
                .map(|(px, py)| (x.position_of(*px), y.position_of(*py)))
                .collect();
            let list = positions.iter().map(|(px, py)| format!("{px:.1},{py:.1}"));
            svg += &format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n",
                list.collect::<Vec<_>>().join(" ")
            );
            if let Some((px, py)) = positions.last() {
                svg += &text_element(px + 8.0, py + 4.0, "start", name);
            }
        }
        svg + "</svg>\n"
    }
}

/// A logarithmic axis between whole powers of ten.
struct LogAxis {
    /// Exponents of the smallest and the largest value.
    exponents: (f64, f64),
    /// Position of the smallest value.
    from: f64,
    /// Position of the largest value.
    to: f64,
}

impl LogAxis {
    fn new(values: impl Iterator<Item = f64>, from: f64, to: f64) -> LogAxis {
        let empty = (f64::INFINITY, 0.0_f64);
        let (min, max) = values.fold(empty, |(min, max), v| (min.min(v), max.max(v)));
        LogAxis {
            exponents: (min.log10().floor(), max.log10().ceil()),
            from,
            to,
        }
    }

    fn position_of(&self, value: f64) -> f64 {
        let (min, max) = self.exponents;
        let share = (value.log10() - min) / (max - min).max(1.0);
        self.from + share * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (min, max) = self.exponents;
        (min as i32..=max as i32).map(|exponent| 10_f64.powi(exponent))
    }
}

fn line_element(from: (f64, f64), to: (f64, f64)) -> String {
    format!(
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>\n",
        from.0, from.1, to.0, to.1
    )
}

fn text_element(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
}
