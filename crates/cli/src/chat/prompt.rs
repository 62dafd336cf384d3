//! The prompt: a line editor with a history of messages.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc as requests};

use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{
    Behavior, Cmd, ConditionalEventHandler, Config, Editor, Event, EventContext, EventHandler, ExternalPrinter,
    KeyEvent, Movement, RepeatCount,
};
use tokio::sync::mpsc;

use super::keyboard::Mode;
use super::paint::{Ink, Paint};
use super::screen::write_aside;
use crate::signals::{Signals, Stop};

const HOW_TO_LEAVE: &str = "Press Ctrl-C again or Ctrl-D to leave.";
const NOT_UTF_8: &str = "That is not UTF-8, which is all that is understood here.";

/// A prompt at the terminal. The history lives only as long as this value.
pub(super) struct LineEditor {
    paint: Paint,
    /// Tells the editor's thread to prompt, with a plain and a styled text.
    prompts: requests::Sender<(String, String)>,
    typed: mpsc::Receiver<rustyline::Result<String>>,
    /// Writes above the line that is being edited; `None` if the terminal cannot do that.
    printer: Option<Box<dyn ExternalPrinter + Send>>,
    /// Whether the editor is prompting.
    is_open: bool,
    /// Whether the user was told how to leave and has typed nothing since.
    is_warned: bool,
    /// Whether Ctrl-C has cleared a line since the last message.
    is_cleared: Arc<AtomicBool>,
    mode: Mode,
}

impl LineEditor {
    pub(super) fn new(paint: Paint) -> rustyline::Result<Self> {
        // The editor writes to standard output only if that is the terminal: otherwise only answers go there.
        let behavior = if io::stdout().is_terminal() { Behavior::Stdio } else { Behavior::PreferTerm };
        let config = Config::builder().behavior(behavior).build();
        let history = MemHistory::with_config(&config);
        let mut editor = Editor::<(), MemHistory>::with_history(config, history)?;
        // Without a helper the editor ignores the styled prompt.
        editor.set_helper(Some(()));
        let is_cleared = Arc::<AtomicBool>::default();
        let clear_line = ClearLine(Arc::clone(&is_cleared));
        editor.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(clear_line)));
        // This fails on a terminal that cannot do it.
        let printer = editor.create_external_printer().ok();
        let printer = printer.map(|printer| Box::new(printer) as Box<dyn ExternalPrinter + Send>);
        let (prompts, prompted) = requests::channel::<(String, String)>();
        let (sender, typed) = mpsc::channel(1);
        // Nobody joins this thread: the editor cannot be stopped, and must not delay the end of the process.
        std::thread::Builder::new().name("prompt".to_owned()).spawn(move || {
            while let Ok(prompt) = prompted.recv() {
                if sender.blocking_send(read(&mut editor, &prompt)).is_err() {
                    return;
                }
            }
        })?;
        let (is_open, is_warned, mode) = (false, false, Mode::of_terminal());
        Ok(Self { paint, prompts, typed, printer, is_open, is_warned, is_cleared, mode })
    }

    /// The next message, of one line or more; `None` if the user leaves. Safe to drop while it waits: the prompt stays, and
    /// nothing is lost.
    pub(super) async fn next(&mut self, prompt: &str, signals: &mut Signals) -> rustyline::Result<Option<String>> {
        loop {
            if !self.is_open {
                let styled = self.paint.ink(Ink::Bold, prompt);
                // This fails when the editor's thread has ended; `recv` reports that.
                self.is_open = self.prompts.send((prompt.to_owned(), styled)).is_ok();
            }
            let typed = tokio::select! {
                typed = self.typed.recv() => {
                    self.is_open = false;
                    self.is_warned &= !self.is_cleared.swap(false, Ordering::Relaxed);
                    typed
                }
                // The editor itself reads the key Ctrl-C, so this is a real signal, or a key from just before the prompt.
                stop = signals.next() => (stop == Stop::Interrupt).then_some(Err(ReadlineError::Interrupted)),
            };
            match typed {
                Some(Ok(text)) => {
                    self.is_warned = false;
                    return Ok(Some(text));
                }
                Some(Err(ReadlineError::Interrupted)) if !self.is_warned => {
                    self.is_warned = true;
                    self.print(Ink::Dim, HOW_TO_LEAVE)?;
                }
                Some(Err(ReadlineError::Io(error))) if error.kind() == io::ErrorKind::InvalidData => {
                    self.print(Ink::Yellow, NOT_UTF_8)?;
                }
                Some(Err(ReadlineError::Interrupted | ReadlineError::Eof)) | None => {
                    self.close();
                    return Ok(None);
                }
                Some(Err(error)) => return Err(error),
            }
        }
    }

    /// Writes a line above the one that is being edited. The text must be safe for a terminal.
    pub(super) fn print(&mut self, ink: Ink, text: &str) -> rustyline::Result<()> {
        let line = format!("{}\n", self.paint.ink(ink, text));
        match &mut self.printer {
            Some(printer) if self.is_open => printer.print(line),
            _ => Ok(write_aside(&line)?),
        }
    }

    /// Restores the terminal while the editor still prompts; it prompts until the process ends.
    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.mode.restore();
            // This turns bracketed paste off. It fails only if the terminal is gone.
            let _ = write_aside("\u{1b}[?2004l\n");
        }
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        self.close();
    }
}

/// Handles Ctrl-C: clears the line. On an empty line the editor reports an interruption instead.
struct ClearLine(Arc<AtomicBool>);

impl ConditionalEventHandler for ClearLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        if context.line().is_empty() {
            return None;
        }
        self.0.store(true, Ordering::Relaxed);
        Some(Cmd::Kill(Movement::WholeBuffer))
    }
}

/// Reads a message. A line that ends with a backslash is continued on the next; a pasted backslash stays as it is.
fn read(editor: &mut Editor<(), MemHistory>, prompt: &(String, String)) -> rustyline::Result<String> {
    let mut message = editor.readline(prompt)?;
    while message.ends_with('\\') {
        message.pop();
        message.push('\n');
        message.push_str(&editor.readline("… ")?);
    }
    editor.add_history_entry(&message)?;
    Ok(message)
}
