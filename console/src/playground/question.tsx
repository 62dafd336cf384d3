import { useId, useState } from "preact/hooks";

import { Button } from "../components/button";
import { answer, type Question } from "./questions";

/** A question of a tool, and where to answer it. */
export function QuestionForm({ question }: { question: Question }) {
  const id = useId();
  const [typed, setTyped] = useState("");
  const onSubmit = (event: Event) => {
    event.preventDefault();
    if (typed.trim() !== "") answer(question, typed);
  };
  return (
    <form class="question" onSubmit={onSubmit}>
      <label for={id}>{question.text}</label>
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
        <Button kind="quiet" onClick={() => answer(question, undefined)}>
          Rather not say
        </Button>
      </div>
    </form>
  );
}
