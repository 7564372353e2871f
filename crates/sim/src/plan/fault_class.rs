//! Classes of faults.

/// Class of faults. A plan has all faults of a class or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// Partitions, slow links, resets.
    Net,
    /// Processes that are stopped or killed.
    Process,
    /// Machines that lose their power or are suspended.
    Machine,
    /// Clocks that run at other rates.
    Clock,
    /// Disks whose syncs are slow or fail.
    Disk,
    /// Moves, drains, graceful restarts, leadership transfers, and an AllocSvr that joins.
    Operations,
    /// Stores that join, leave, lose their disks or run beside a copy.
    Members,
    /// Another cluster is made of the same machines.
    Remake,
    /// The leader loses its quorum again and again while an AllocSvr is dead.
    Flap,
    /// More commands wait for the log than an entry can hold.
    Flood,
    /// Faults during the initialization of the cluster.
    Genesis,
}
