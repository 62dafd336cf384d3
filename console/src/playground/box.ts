import { createRef } from "preact";

/** Where the user speaks: the focus goes there from what is answered, and then gone. */
export const box = createRef<HTMLTextAreaElement>();
