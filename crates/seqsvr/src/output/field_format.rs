//! The fields of an event in the text log: `message name=value`, one event on one line.

use std::fmt::{self, Write};

use seqsvr_proto::printable::write_printable;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Returns the format of fields. It escapes line ends and other unprintable characters of values,
/// which may have come over the network.
pub(super) fn printable_fields() -> impl for<'a> FormatFields<'a> + Send + Sync + 'static {
    debug_fn(write_field).delimited(" ")
}

fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    match field.name() {
        "message" => {}
        // Fields with which the bridge from the `log` crate describes an event.
        name if name.starts_with("log.") => return Ok(()),
        name => {
            let name = name.strip_prefix("r#").unwrap_or(name);
            match writer.has_ansi_escapes() {
                true => write!(writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?,
                false => write!(writer, "{name}=")?,
            }
        }
    }
    write!(PrintableWriter(writer), "{value:?}")
}

/// Escapes what is written through it.
struct PrintableWriter<'a, 'w>(&'a mut Writer<'w>);

impl Write for PrintableWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_printable(self.0, text)
    }
}
