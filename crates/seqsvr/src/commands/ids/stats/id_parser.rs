//! The id of a line.

use anyhow::bail;
use seqsvr_ids::InputError;
use seqsvr_ids::text::{IdForm, no_form, read_any_form};
use seqsvr_ids::uuids::Uuid;

/// Longest line in bytes. A longer one is an error.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// Parses the ids of lines. The form of the first one is that of all; UUIDs with hyphens may be
/// among them.
#[derive(Default)]
pub(super) struct IdParser {
    /// The form of ids; None before the first id, which decides.
    pub(super) form: Option<IdForm>,
    /// Ids so far.
    pub(super) ids: u64,
    /// The first line, if it is no id.
    pub(super) header: Option<String>,
}

impl IdParser {
    /// Formats an id as the lines have it; one above 64 bits in decimal, in hex or as a UUID.
    pub(super) fn format(&self, id: u128) -> String {
        match (self.form, u64::try_from(id)) {
            (Some(form), Ok(id)) => form.format(id),
            (Some(IdForm::Decimal), Err(_)) => id.to_string(),
            (Some(IdForm::Hex), Err(_)) => format!("{id:032x}"),
            _ => Uuid::from_u128(id).to_string(),
        }
    }

    /// Returns the id of a line with this number; None if it is blank, or the header.
    ///
    /// # Errors
    /// The line is no id.
    pub(super) fn parse(&mut self, line: &[u8], number: u64) -> anyhow::Result<Option<u128>> {
        if line.len() > LINE_BYTES_MAX {
            bail!("it is above {LINE_BYTES_MAX} bytes; write one id a line");
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() {
            return Ok(None);
        }
        if line.contains('\r') {
            bail!("it has a carriage return inside; end lines with LF or CR and LF");
        }
        let column = first_column(line);
        let is_digit = |c: char| c.is_ascii_digit();
        match parse_id(column, &mut self.form) {
            Ok(id) => {
                self.ids += 1;
                Ok(Some(id))
            }
            // A damaged id has digits.
            Err(_) if self.ids == 0 && self.header.is_none() && !column.contains(is_digit) => {
                self.header = Some(format!("{column:?} (line {number})"));
                Ok(None)
            }
            Err(cause) => bail!("{cause}; --form names another form"),
        }
    }
}

/// Returns the first column of a line, without quotes around it.
fn first_column(line: &str) -> &str {
    let quoted = line.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    let bare = line.split([',', ';', '\t']).next();
    quoted
        .map_or(bare.unwrap_or_default(), |(column, _)| column)
        .trim()
}

/// Parses an id. If there is no form yet, the text decides: only decimal and hexadecimal are
/// recognized, because a name of a column can be an id in the other forms.
fn parse_id(text: &str, form: &mut Option<IdForm>) -> Result<u128, InputError> {
    // The short way of most lines. Rust's own parser takes a sign.
    if let (Some(IdForm::Decimal), Ok(id), false) = (*form, text.parse(), text.starts_with('+')) {
        let id: u64 = id;
        return Ok(id.into());
    }
    if let (true, Ok(uuid)) = (text.contains('-'), Uuid::try_parse(text)) {
        return Ok(uuid.as_u128());
    }
    let is_named = text.contains(':');
    if let (Some(form), false) = (*form, is_named) {
        return form.parse(text);
    }
    let (found, id) = read_any_form(text)?[0];
    if !matches!(found, IdForm::Decimal | IdForm::Hex) && !is_named {
        return Err(no_form(text));
    }
    form.get_or_insert(found);
    Ok(id)
}
