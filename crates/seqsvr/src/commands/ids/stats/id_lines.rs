//! The ids of a text, line by line.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};

use seqsvr_ids::InputError;
use seqsvr_ids::text::{IdForm, no_form, read_any_form};
use seqsvr_ids::uuids::Uuid;

use crate::output::exit_code::{BadInput, unreadable_input};

/// Longest line in bytes. A longer one is an error.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// What to do about a file that cannot be read.
pub(super) const FILE_ADVICE: &str = "name a text file with one id a line, or - for stdin";

/// Reads ids. The form of the first one is that of all; UUIDs with hyphens may be among them.
pub(super) struct IdLines {
    input: BufReader<Box<dyn Read>>,
    name: String,
    form: Option<IdForm>,
    line: Vec<u8>,
    /// Number of the line, from 1.
    number: u64,
    /// Ids and headers so far.
    texts: u64,
    /// The first line, if it is no id.
    pub(super) header: Option<String>,
}

impl IdLines {
    /// Reads from `input`, which errors call `name`. Without a form the first id decides.
    pub(super) fn new(input: Box<dyn Read>, name: String, form: Option<IdForm>) -> IdLines {
        IdLines {
            input: BufReader::with_capacity(1 << 20, input),
            name,
            form,
            line: Vec::new(),
            number: 0,
            texts: 0,
            header: None,
        }
    }

    /// Formats an id as the lines have it; one above 64 bits in decimal, in hex or as a UUID.
    pub(super) fn format(&self, id: u128) -> String {
        match (self.form, u64::try_from(id)) {
            (Some(form), Ok(id)) => form.format(id),
            (Some(IdForm::Decimal), Err(_)) => id.to_string(),
            (Some(IdForm::Hex), Err(_)) => format!("{id:032x}"),
            _ => Uuid::from_u128(id).to_string(),
        }
    }

    /// Returns the error of the line that was read last.
    pub(super) fn bad_line(&self, cause: &dyn Display) -> BadInput {
        BadInput(format!("{}, line {}: {cause}", self.name, self.number))
    }

    /// Returns the next id; None at the end.
    ///
    /// # Errors
    /// The input cannot be read, or a line that is no header is no id.
    pub(super) fn next_id(&mut self) -> anyhow::Result<Option<u128>> {
        let is_digit = |c: char| c.is_ascii_digit();
        loop {
            self.line.clear();
            self.number += 1;
            let mut limited = self.input.by_ref().take(LINE_BYTES_MAX);
            let read = limited.read_until(b'\n', &mut self.line);
            match read.map_err(|cause| unreadable_input(&self.name, &cause, FILE_ADVICE))? as u64 {
                0 => return Ok(None),
                LINE_BYTES_MAX if !self.line.ends_with(b"\n") => {
                    let bounds = format!("it is above {LINE_BYTES_MAX} bytes; write one id a line");
                    return Err(self.bad_line(&bounds).into());
                }
                _ => {}
            }
            let line = String::from_utf8_lossy(&self.line);
            let line = line.trim_start_matches('\u{feff}').trim();
            if line.is_empty() {
                continue;
            }
            if line.contains('\r') {
                let cause = "it has a carriage return inside; end lines with LF or CR and LF";
                return Err(self.bad_line(&cause).into());
            }
            self.texts += 1;
            match parse_id(first_column(line), &mut self.form) {
                Ok(id) => return Ok(Some(id)),
                // A damaged id has digits.
                Err(_) if self.texts == 1 && !first_column(line).contains(is_digit) => {
                    self.header = Some(format!("{:?} (line {})", first_column(line), self.number));
                }
                Err(cause) => {
                    let advice = "--form names another form";
                    return Err(self.bad_line(&format!("{cause}; {advice}")).into());
                }
            }
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
