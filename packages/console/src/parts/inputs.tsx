// How does a form ask?

import { useId } from "preact/hooks";

export function Check({ label, isOn, set }: { label: string; isOn: boolean; set: (isOn: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={isOn} onChange={(event) => set(event.currentTarget.checked)} />
      {label}
    </label>
  );
}

export function Select<T extends string>({
  label,
  value,
  options,
  set,
}: {
  label: string;
  value: T;
  options: readonly T[];
  set: (value: T) => void;
}) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => set(event.currentTarget.value as T)}>
        {options.map((option) => (
          <option key={option} value={option}>
            {option}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A few options, of which one is on. */
export function Choice<T extends string>({
  label,
  value,
  options,
  set,
}: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  set: (value: T) => void;
}) {
  const name = useId();
  return (
    <div class="choice" role="radiogroup" aria-label={label}>
      {options.map(([option, text]) => (
        <label key={option}>
          <input type="radio" name={name} checked={option === value} onChange={() => set(option)} />
          {text}
        </label>
      ))}
    </div>
  );
}

export function Field({
  label,
  value,
  set,
  type = "text",
  placeholder,
}: {
  label: string;
  value: string;
  set: (value: string) => void;
  type?: "text" | "number";
  placeholder?: string;
}) {
  const id = useId();
  const common = {
    id,
    value,
    placeholder,
    onInput: (event: { readonly currentTarget: HTMLInputElement }) => set(event.currentTarget.value),
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {type === "number" ? <input type="number" step="any" {...common} /> : <input type="text" {...common} />}
    </div>
  );
}

export function Area({
  label,
  value,
  set,
  placeholder,
}: {
  label: string;
  value: string;
  set: (value: string) => void;
  placeholder?: string;
}) {
  return (
    <label class="field">
      <span>{label}</span>
      <textarea
        value={value}
        placeholder={placeholder}
        spellcheck={false}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
}
