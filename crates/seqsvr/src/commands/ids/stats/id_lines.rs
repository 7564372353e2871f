//! The ids of a text, line by line.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};

use seqsvr_ids::text::{IdForm, IdTextError, read_any_form};
use seqsvr_ids::uuids::Uuid;

use crate::output::exit_code::{BadInput, unreadable_input};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Longest line in bytes. A longer one is an error.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Reads ids. The form of the first one is that of all.
pub(super) struct IdLines {
    input: BufReader<Box<dyn Read>>,
    name: String,
    form: Option<LineForm>,
    line: Vec<u8>,
    /// Number of the line, from 1.
    number: u64,
    is_first: bool,
    header: Option<String>,
}

/// Form of an id.
#[derive(Clone, Copy)]
enum LineForm {
    Number(IdForm),
    /// With hyphens, maybe in braces or as a URN.
    Uuid,
}

impl IdLines {
    /// Reads from `input`, which errors call `name`. Without a form the first id decides.
    pub(super) fn new(input: Box<dyn Read>, name: String, form: Option<IdForm>) -> IdLines {
        IdLines {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            name,
            form: form.map(LineForm::Number),
            line: Vec::new(),
            number: 0,
            is_first: true,
            header: None,
        }
    }

    /// Returns the header and its line, if there was one.
    pub(super) fn header(&self) -> Option<&str> {
        self.header.as_deref()
    }

    /// Formats an id as the lines have it. Ids above 64 bits are decimal, hexadecimal or UUIDs.
    pub(super) fn format(&self, id: u128) -> String {
        match (self.form, u64::try_from(id)) {
            (Some(LineForm::Uuid), _) => Uuid::from_u128(id).to_string(),
            (Some(LineForm::Number(form)), Ok(id)) => form.format(id),
            (Some(LineForm::Number(IdForm::Hex)), Err(_)) => format!("{id:032x}"),
            _ => id.to_string(),
        }
    }

    /// Returns the error of the line that was read last.
    pub(super) fn bad_line(&self, cause: &dyn Display) -> BadInput {
        BadInput(format!("{}, line {}: {cause:#}", self.name, self.number))
    }

    /// Returns the next id; None at the end.
    ///
    /// # Errors
    /// The input cannot be read, or a line other than the first is no id.
    pub(super) fn next_id(&mut self) -> anyhow::Result<Option<u128>> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut limited = self.input.by_ref().take(LINE_BYTES_MAX);
            let read = limited.read_until(b'\n', &mut self.line);
            let advice = "name a text file with one id a line, or - for stdin";
            let bytes = read.map_err(|cause| unreadable_input(&self.name, &cause, advice))?;
            if bytes == 0 {
                return Ok(None);
            }
            if bytes as u64 == LINE_BYTES_MAX && !self.line.ends_with(b"\n") {
                let too_long = format!(
                    "it is longer than {LINE_BYTES_MAX} bytes; write one id a line, for example \
                     225912364091068416"
                );
                return Err(self.bad_line(&too_long).into());
            }
            let line = String::from_utf8_lossy(&self.line);
            let column = first_column(&line);
            if column.is_empty() && line.trim_matches(['\u{feff}', '\r', '\n', ' ']).is_empty() {
                continue;
            }
            let is_first = std::mem::replace(&mut self.is_first, false);
            match parse_id(column, &mut self.form) {
                Ok(id) => return Ok(Some(id)),
                Err(_) if is_first => {
                    self.header = Some(format!("{column:?} (line {})", self.number));
                }
                Err(cause) => return Err(self.bad_line(&cause).into()),
            }
        }
    }
}

/// Returns the first column of a line, without quotes around it.
fn first_column(line: &str) -> &str {
    let line = line.trim_start_matches('\u{feff}').trim();
    let quoted = line.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    let column = match quoted {
        Some((column, _)) => column,
        None => line.split([',', ';', '\t']).next().unwrap_or_default(),
    };
    column.trim()
}

/// Parses an id in a form. If there is none yet, the text decides: only decimal, hexadecimal and
/// UUIDs are recognized, because a name of a column can be an id in the other forms.
fn parse_id(text: &str, form: &mut Option<LineForm>) -> Result<u128, anyhow::Error> {
    match *form {
        Some(LineForm::Uuid) => {
            let parsed = Uuid::try_parse(text);
            parsed.map(|uuid| uuid.as_u128()).map_err(|cause| {
                let example = "6bd19fe7-7b3d-45a0-bb07-41e46df9242d";
                anyhow::anyhow!("{text:?} is no UUID: {cause}; write for example {example}")
            })
        }
        Some(LineForm::Number(form)) => {
            if form == IdForm::Decimal
                && let Ok(id) = text.parse::<u64>()
            {
                return Ok(id.into());
            }
            let prefix = text.strip_prefix(form.name());
            let bare = prefix.and_then(|rest| rest.strip_prefix(':'));
            let parsed = form.parse(bare.unwrap_or(text));
            parsed.map_err(|cause| anyhow::anyhow!("{cause}; --form names another form"))
        }
        None => {
            if let (Ok(uuid), true) = (Uuid::try_parse(text), text.contains('-')) {
                *form = Some(LineForm::Uuid);
                return Ok(uuid.as_u128());
            }
            let (found, id) = read_any_form(text)?[0];
            let is_certain = matches!(found, IdForm::Decimal | IdForm::Hex) || text.contains(':');
            if !is_certain {
                return Err(IdTextError::NoForm(text.to_owned()).into());
            }
            *form = Some(LineForm::Number(found));
            Ok(id)
        }
    }
}
