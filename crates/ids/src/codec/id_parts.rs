//! What an id is made of.

/// The parts of an id. A part that the layout does not have is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IdParts {
    /// Ticks since the epoch.
    pub tick: u64,
    /// The data center, or the upper of two levels of a worker.
    pub dc: u32,
    /// The number of the maker.
    pub worker: u32,
    /// The timeline of the worker.
    pub lane: u32,
    /// The number within the tick.
    pub seq: u32,
    /// The bits of all random fields, those of the first field highest.
    pub rand: u64,
}

impl IdParts {
    /// Returns the values in the order of [`IdPart::ALL`].
    #[inline]
    pub fn values(&self) -> [u64; 6] {
        let [dc, worker, lane, seq] = [self.dc, self.worker, self.lane, self.seq].map(u64::from);
        [self.tick, dc, worker, lane, seq, self.rand]
    }

    /// Returns the value of one part.
    pub fn value_of(&self, part: IdPart) -> u64 {
        self.values()[part as usize]
    }
}

/// Which part of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdPart {
    /// Ticks since the epoch.
    Tick,
    /// The data center.
    DataCenter,
    /// The number of the maker.
    Worker,
    /// The timeline of the worker.
    Lane,
    /// The number within the tick.
    Sequence,
    /// The random bits.
    Random,
}

impl IdPart {
    /// Every part.
    pub const ALL: [IdPart; 6] = [
        IdPart::Tick,
        IdPart::DataCenter,
        IdPart::Worker,
        IdPart::Lane,
        IdPart::Sequence,
        IdPart::Random,
    ];

    /// Returns the name that texts and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            IdPart::Tick => "tick",
            IdPart::DataCenter => "dc",
            IdPart::Worker => "worker",
            IdPart::Lane => "lane",
            IdPart::Sequence => "seq",
            IdPart::Random => "rand",
        }
    }
}
