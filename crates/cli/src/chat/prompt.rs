//! The prompt: what is typed there can be edited, and earlier messages can be had back.

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

use super::mode::Mode;
use super::paint::{Ink, Paint};
use super::screen::write_aside;
use crate::signals::{Signals, Stop};

const HOW_TO_LEAVE: &str = "Press Ctrl-C again or Ctrl-D to leave.";
const NOT_UTF_8: &str = "That is not UTF-8, which is all that is understood here.";

/// A prompt at the terminal. What was typed before is kept as long as this is, and nowhere else.
pub(super) struct Prompt {
    paint: Paint,
    prompts: requests::Sender<(String, String)>,
    typed: mpsc::Receiver<rustyline::Result<String>>,
    /// Writes above what is being typed; there is none where the terminal cannot do that.
    printer: Option<Box<dyn ExternalPrinter + Send>>,
    /// Whether the user is asked to type something.
    is_open: bool,
    /// Whether the user was told how to leave, and has typed nothing since.
    is_warned: bool,
    /// Whether something that was typed was taken back.
    taken_back: Arc<AtomicBool>,
    mode: Mode,
}

impl Prompt {
    pub(super) fn new(paint: Paint) -> rustyline::Result<Self> {
        // The editor writes to standard output. Where that is not the terminal, the answers alone go there.
        let behavior = if io::stdout().is_terminal() { Behavior::Stdio } else { Behavior::PreferTerm };
        let config = Config::builder().behavior(behavior).build();
        let history = MemHistory::with_config(&config);
        let mut editor = Editor::<(), MemHistory>::with_history(config, history)?;
        // Without a helper the prompt is not painted.
        editor.set_helper(Some(()));
        let taken_back = Arc::<AtomicBool>::default();
        let take_back = TakeBack(Arc::clone(&taken_back));
        editor.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(take_back)));
        // Fails where the terminal can do too little for it.
        let printer = editor.create_external_printer().ok();
        let printer = printer.map(|printer| Box::new(printer) as Box<dyn ExternalPrinter + Send>);
        let (prompts, prompted) = requests::channel::<(String, String)>();
        let (sender, typed) = mpsc::channel(1);
        // A thread that nobody waits for: the editor cannot be stopped, and must not hold up the end.
        std::thread::Builder::new().name("prompt".to_owned()).spawn(move || {
            while let Ok(prompt) = prompted.recv() {
                if sender.blocking_send(read(&mut editor, &prompt)).is_err() {
                    return;
                }
            }
        })?;
        let (is_open, is_warned, mode) = (false, false, Mode::of_terminal());
        Ok(Self { paint, prompts, typed, printer, is_open, is_warned, taken_back, mode })
    }

    /// What is typed next, of one line or more; `None` if the user leaves instead. Safe to drop while it waits: the prompt
    /// stays, and nothing is lost.
    pub(super) async fn next(&mut self, prompt: &str, signals: &mut Signals) -> rustyline::Result<Option<String>> {
        loop {
            if !self.is_open {
                let styled = self.paint.ink(Ink::Bold, prompt);
                // Fails when the editor is gone, and then nothing is typed either.
                self.is_open = self.prompts.send((prompt.to_owned(), styled)).is_ok();
            }
            let typed = tokio::select! {
                typed = self.typed.recv() => typed,
                // Not the key, which the editor reads: somebody sent a signal, or the key was pressed just before.
                stop = signals.next() => {
                    if stop == Stop::Terminate || self.is_warned {
                        self.close();
                        return Ok(None);
                    }
                    self.is_warned = true;
                    self.print(Ink::Dim, HOW_TO_LEAVE)?;
                    continue;
                }
            };
            self.is_open = false;
            self.is_warned &= !self.taken_back.swap(false, Ordering::Relaxed);
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
                Some(Err(ReadlineError::Interrupted | ReadlineError::Eof)) | None => return Ok(None),
                Some(Err(error)) => return Err(error),
            }
        }
    }

    /// Writes a line above what is being typed. The text is our own, or made plain.
    pub(super) fn print(&mut self, ink: Ink, text: &str) -> rustyline::Result<()> {
        let line = format!("{}\n", self.paint.ink(ink, text));
        match &mut self.printer {
            Some(printer) if self.is_open => printer.print(line),
            _ => Ok(write_aside(&line)?),
        }
    }

    /// Leaves the terminal as it was, although the editor goes on until the process ends.
    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.mode.restore();
            // Bracketed paste is off again. Fails where there is no terminal any more, and then it need not be.
            let _ = write_aside("\u{1b}[?2004l\n");
        }
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        self.close();
    }
}

/// Ctrl-C takes back what is on the line. Where nothing is, whoever reads the line decides.
struct TakeBack(Arc<AtomicBool>);

impl ConditionalEventHandler for TakeBack {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        if context.line().is_empty() {
            return None;
        }
        self.0.store(true, Ordering::Relaxed);
        Some(Cmd::Kill(Movement::WholeBuffer))
    }
}

/// Reads a message. A line that ends with a backslash goes on in the next; one within a paste stays what it is.
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
