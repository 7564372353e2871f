//! Two pictures: numbers a second by numbers of a call, and latency by load.

use std::fs;
use std::path::Path;

use super::Failure;
use super::measure::median;
use super::report::short;
use super::testbed::Rig;
use super::workload::{Work, bench, figure};

/// Width and height of a picture, and its margins: left, top, right, bottom.
const SIZE: (f64, f64) = (720.0, 400.0);
const MARGINS: (f64, f64, f64, f64) = (80.0, 40.0, 150.0, 50.0);
/// Of the lines.
const COLOURS: [&str; 4] = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728"];

/// Calls of the first picture, by their numbers.
const CALLS: [(f64, &str); 4] = [
    (1.0, "--in-flight 1024 --keys 1000000"),
    (
        10.0,
        "--mode next-many --batch 10 --in-flight 512 --keys 1000000",
    ),
    (
        100.0,
        "--mode next-many --batch 100 --in-flight 256 --keys 1000000",
    ),
    (
        1_000.0,
        "--mode next-many --batch 1000 --in-flight 64 --keys 1000000",
    ),
];
/// Parts of the peak at which the second picture shows latencies.
const LOADS: [f64; 6] = [0.1, 0.25, 0.5, 0.7, 0.8, 0.9];
const OPEN: &str = "--in-flight 4096 --keys 1000000";
const PERCENTILES: [(&str, &str); 3] = [
    ("p50", "/latency_ns/p50"),
    ("p99", "/latency_ns/p99"),
    ("p99.9", "/latency_ns/p99.9"),
];

/// Measures and writes `throughput.svg` and `latency.svg`.
pub(super) async fn draw(rig: &mut Rig, rounds: u32, dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(Failure::wrong)?;
    let write = |name: &str, chart: &Chart| fs::write(dir.join(name), chart.svg());
    write("throughput.svg", &throughput(rig, rounds).await?).map_err(Failure::wrong)?;
    write("latency.svg", &latency(rig, rounds).await?).map_err(Failure::wrong)
}

async fn throughput(rig: &mut Rig, rounds: u32) -> Result<Chart, Failure> {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for (numbers, args) in CALLS {
        let frames = Work::Frames {
            numbers: numbers as u32,
        };
        for (work, line) in [(Work::Bench(args), &mut ours), (frames, &mut bare)] {
            rig.keep(&[work]);
            let mut rates = Vec::new();
            for _ in 0..rounds {
                rates.push(work.run(rig).await?.rate);
            }
            line.push((numbers, median(rates.into_iter())));
        }
    }
    Ok(Chart {
        title: "Numbers a second, by numbers of a call",
        x: "numbers of a call, or of a frame",
        unit: short,
        lines: vec![("seqsvr", ours), ("bare tonic stream", bare)],
    })
}

async fn latency(rig: &mut Rig, rounds: u32) -> Result<Chart, Failure> {
    let work = Work::Bench("--in-flight 1024 --keys 1000000");
    rig.keep(&[work]);
    let peak = work.run(rig).await?.rate;
    let mut lines: Vec<(&str, Vec<(f64, f64)>)> =
        PERCENTILES.map(|(name, _)| (name, Vec::new())).into();
    for load in LOADS {
        let mut samples = Vec::new();
        for _ in 0..rounds {
            samples.push(bench(rig, OPEN, Some(peak * load), rig.time)?);
        }
        for ((_, line), (_, at)) in lines.iter_mut().zip(PERCENTILES) {
            let all: Result<Vec<f64>, Failure> = samples.iter().map(|s| figure(s, at)).collect();
            line.push((peak * load, median(all?.into_iter())));
        }
    }
    Ok(Chart {
        title: "Latency of next, by calls due a second (open loop)",
        x: "calls a second",
        unit: |nanos| format!("{} us", short(nanos / 1e3)),
        lines,
    })
}

/// Lines over two logarithmic axes.
struct Chart {
    title: &'static str,
    x: &'static str,
    /// How a value of the y axis is written.
    unit: fn(f64) -> String,
    lines: Vec<(&'static str, Vec<(f64, f64)>)>,
}

impl Chart {
    fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let x = Axis::of(points().map(|p| p.0), MARGINS.0, SIZE.0 - MARGINS.2);
        let y = Axis::of(points().map(|p| p.1), SIZE.1 - MARGINS.3, MARGINS.1);
        let (width, height) = SIZE;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n{}{}",
            text(width / 2.0, 20.0, "middle", self.title),
            text((x.from + x.to) / 2.0, height - 12.0, "middle", self.x),
        );
        for value in x.ticks() {
            let at = x.place(value);
            svg += &line((at, y.from), (at, y.to), "#ddd");
            svg += &text(at, y.from + 18.0, "middle", &short(value));
        }
        for value in y.ticks() {
            let at = y.place(value);
            svg += &line((x.from, at), (x.to, at), "#ddd");
            svg += &text(x.from - 8.0, at + 4.0, "end", &(self.unit)(value));
        }
        for ((name, points), colour) in self.lines.iter().zip(COLOURS) {
            let placed: Vec<String> = points
                .iter()
                .map(|(px, py)| format!("{:.1},{:.1}", x.place(*px), y.place(*py)))
                .collect();
            svg += &format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
                placed.join(" ")
            );
            if let Some((px, py)) = points.last() {
                svg += &text(x.place(*px) + 8.0, y.place(*py) + 4.0, "start", name);
            }
        }
        svg + "</svg>\n"
    }
}

/// A logarithmic axis between whole powers of ten, or halves of them.
struct Axis {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(l, m), v| (l.min(v), m.max(v)));
        Axis {
            least: least.log10().floor(),
            most: most.log10().ceil(),
            from,
            to,
        }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.log10() - self.least) / (self.most - self.least).max(1.0);
        self.from + part * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.least as i32..=self.most as i32).map(|power| 10_f64.powi(power))
    }
}

fn line(from: (f64, f64), to: (f64, f64), colour: &str) -> String {
    format!(
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>\n",
        from.0, from.1, to.0, to.1
    )
}

fn text(x: f64, y: f64, anchor: &str, words: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>\n")
}
