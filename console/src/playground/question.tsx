import { useId, useState } from "preact/hooks";

import { Button } from "../components/button";
import { writeOut } from "../components/text";
import { box } from "./box";
import { answer, type Question } from "./questions";

/** A question of a tool, and where to answer it. */
export function QuestionForm({ question }: { question: Question }) {
  const id = useId();
  const [typed, setTyped] = useState("");
  const give = (text: string | undefined) => {
    answer(question, text);
    box.current?.focus();
  };
  const onSubmit = (event: Event) => {
    event.preventDefault();
    if (typed.trim() !== "") give(typed);
  };
  return (
    <form class="question" onSubmit={onSubmit}>
      <label for={id}>{writeOut(question.text)}</label>
      <div class="question-answer">
        <input
          id={id}
          placeholder="Your answer"
          autocomplete="off"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <Button kind="primary" type="submit" disabled={typed.trim() === ""}>
          Answer
        </Button>
        <Button kind="quiet" onClick={() => give(undefined)}>
          Rather not say
        </Button>
      </div>
    </form>
  );
}
