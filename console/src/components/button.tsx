import type { ComponentChildren, JSX } from "preact";

interface ButtonProps extends Omit<JSX.HTMLAttributes<HTMLButtonElement>, "size"> {
  kind?: "plain" | "primary" | "danger" | "quiet";
  type?: "button" | "submit";
  disabled?: boolean;
  children: ComponentChildren;
}

export function Button({ kind = "plain", type = "button", children, ...rest }: ButtonProps) {
  return (
    <button {...rest} type={type} class={`button ${kind} ${String(rest.class ?? "")}`}>
      {children}
    </button>
  );
}
