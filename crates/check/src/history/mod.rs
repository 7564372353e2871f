//! Recorded histories: their calls, their format on disk, how they are written and read.

mod error;
pub mod history_format;
mod history_reader;
mod history_recorder;
mod recorded_call;
mod sequence_name;

pub use error::Error;
pub use history_format::{COLUMNS, HEADER, LINE_MAX, LineProblem};
pub use history_reader::HistoryReader;
pub use history_recorder::HistoryRecorder;
pub use recorded_call::{CallAnswer, CallKind, CallOutcome, RecordedCall};
pub use sequence_name::SequenceName;
