//! A row measured: both sides in turn, so often as asked.

use super::Failure;
use super::cases::{Bar, Row};
use super::testbed::Rig;
use super::workload::{Sample, Work, bench, figure};

/// All samples of a row, one of each side a round.
pub(super) struct Figures {
    pub(super) ours: Vec<Sample>,
    pub(super) theirs: Vec<Sample>,
}

/// One and the other; who is first alternates too.
pub(super) async fn measure(row: &Row, rig: &mut Rig, rounds: u32) -> Result<Figures, Failure> {
    rig.keep(&works(row));
    let mut figures = Figures {
        ours: Vec::new(),
        theirs: Vec::new(),
    };
    // What is not here is told before anything is measured for it.
    if let Some(theirs) = row.theirs {
        rig.start(theirs).await?;
    }
    if let Some((args, time)) = row.prepare {
        rig.start(row.ours).await?;
        bench(rig, args, None, time)?;
    }
    for work in works(row) {
        work.warm_up(rig).await?;
    }
    for round in 0..rounds {
        let mut sides = vec![(row.ours, &mut figures.ours)];
        sides.extend(row.theirs.map(|theirs| (theirs, &mut figures.theirs)));
        if round % 2 == 1 {
            sides.reverse();
        }
        for (work, samples) in sides {
            let sample = work.run(rig).await?;
            eprintln!(
                "{} {}/{rounds}: {work:?}: {:.0} a second",
                row.name,
                round + 1,
                sample.rate
            );
            samples.push(sample);
        }
    }
    Ok(figures)
}

fn works(row: &Row) -> Vec<Work> {
    [row.ours].into_iter().chain(row.theirs).collect()
}

impl Figures {
    /// A counter of the cluster, over all rounds of ours.
    pub(super) fn counted(&self, name: &str) -> f64 {
        let at = format!("/cluster/{name}");
        let counted = self.ours.iter().map(|s| figure(s, &at).unwrap_or(0.0));
        counted.sum()
    }

    /// Ours by theirs, round by round; NaN if there are none.
    pub(super) fn ratio(&self) -> f64 {
        let pairs = self.ours.iter().zip(&self.theirs);
        median(pairs.map(|(ours, theirs)| ours.rate / theirs.rate))
    }

    /// What a bar is about: its median over the rounds.
    pub(super) fn of(&self, bar: Bar) -> Result<f64, Failure> {
        let each = |figure: fn(&Sample) -> Result<f64, Failure>| -> Result<f64, Failure> {
            let all: Result<Vec<f64>, Failure> = self.ours.iter().map(figure).collect();
            all.map(|all| median(all.into_iter()))
        };
        match bar {
            Bar::Ratio(_) => Ok(self.ratio()),
            Bar::Rate(_) => Ok(median(self.ours.iter().map(|s| s.rate))),
            Bar::Tail(_) => {
                let pairs = self.ours.iter().zip(&self.theirs);
                let tail = |sample| figure(sample, "/latency_ns/p99.9");
                let ratios: Result<Vec<f64>, Failure> = pairs
                    .map(|(ours, theirs)| Ok(tail(ours)? / tail(theirs)?))
                    .collect();
                ratios.map(|ratios| median(ratios.into_iter()))
            }
            Bar::Raises(_) => each(|s| Ok(figure(s, "/cluster/raises")? / figure(s, "/seconds")?)),
            Bar::EachRaise(_) => Ok(self.counted("numbers") / self.counted("raises")),
            Bar::EachSync(_) => Ok(self.counted("raises") / self.counted("fsyncs")),
            Bar::Bytes(_) => each(|s| {
                let memory = s
                    .memory
                    .ok_or_else(|| Failure::wrong("no memory is known"))?;
                Ok(memory as f64 / figure(s, "/keys")?)
            }),
            Bar::NoneWaited => {
                let waited = |s: &Sample| figure(s, "/cluster/waited_for_refill");
                self.ours
                    .iter()
                    .try_fold(0.0, |sum, s| Ok(sum + waited(s)?))
            }
        }
    }
}

impl Bar {
    /// Whether a figure meets it.
    pub(super) fn is_met(self, figure: f64) -> bool {
        match self {
            Bar::Ratio(least)
            | Bar::Rate(least)
            | Bar::Raises(least)
            | Bar::EachRaise(least)
            | Bar::EachSync(least) => figure >= least,
            Bar::Tail(most) | Bar::Bytes(most) => figure <= most,
            Bar::NoneWaited => figure == 0.0,
        }
    }
}

/// The middle one, or the mean of the two in the middle. NaN of none.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_round_changes_no_median() {
        assert_eq!(median([3.0, 900.0, 1.0].into_iter()), 3.0);
        assert_eq!(median([4.0, 1.0, 2.0, 900.0].into_iter()), 3.0);
        let sample = |rate| Sample {
            rate,
            ..Sample::default()
        };
        let figures = Figures {
            ours: [100.0, 10.0, 90.0].map(sample).into(),
            theirs: [50.0, 5.0, 900.0].map(sample).into(),
        };
        assert_eq!(figures.ratio(), 2.0);
        assert!(Bar::Ratio(2.0).is_met(figures.ratio()));
        assert!(!Bar::Ratio(2.1).is_met(figures.ratio()));
        assert!(!Bar::NoneWaited.is_met(1.0));
    }
}
