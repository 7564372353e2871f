//! The ids of a text, line by line.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};

use seqsvr_ids::text::{IdForm, IdTextError, read_any_form};

use crate::output::exit_code::{BadInput, unreadable_input};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Longest line in bytes. A longer one is an error.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Reads ids. The form of the first one is that of all.
pub(super) struct IdLines {
    input: BufReader<Box<dyn Read>>,
    name: String,
    form: Option<IdForm>,
    line: Vec<u8>,
    /// Number of the line, from 1.
    number: u64,
    is_first: bool,
    header: Option<String>,
}

impl IdLines {
    /// Reads from `input`, which errors call `name`. Without a form the first id decides.
    pub(super) fn new(input: Box<dyn Read>, name: String, form: Option<IdForm>) -> IdLines {
        IdLines {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            name,
            form,
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

/// Parses an id in a form. If there is none yet, the text decides: only decimal and hexadecimal are
/// recognized, because a name of a column can be an id in the others.
fn parse_id(text: &str, form: &mut Option<IdForm>) -> Result<u128, anyhow::Error> {
    if let Ok(id) = text.parse::<u64>()
        && matches!(form, Some(IdForm::Decimal))
    {
        return Ok(id.into());
    }
    if let Some(form) = form {
        let prefix = text.strip_prefix(form.name());
        let bare = prefix
            .and_then(|rest| rest.strip_prefix(':'))
            .unwrap_or(text);
        let parsed = form.parse(bare);
        return parsed.map_err(|cause| anyhow::anyhow!("{cause}; --form names another form"));
    }
    let readings = read_any_form(text)?;
    match readings[..] {
        [(found, id), ..]
            if text.contains(':') || matches!(found, IdForm::Decimal | IdForm::Hex) =>
        {
            *form = Some(found);
            Ok(id)
        }
        _ => Err(IdTextError::NoForm(text.to_owned()).into()),
    }
}
