/**
 * Markup. Everything that is put into a template is escaped, unless it is markup itself; so
 * what tenants wrote can only ever be text.
 */

export class Markup {
  constructor(private readonly text: string) {}

  toString(): string {
    return this.text;
  }
}

export type Child = Markup | string | number | null | undefined | false | readonly Child[];

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '`': '&#96;',
};

export function escapeText(text: string): string {
  return text.replace(/[&<>"'`]/g, (character) => ENTITIES[character]!);
}

function render(child: Child): string {
  if (child instanceof Markup) {
    return child.toString();
  }
  if (Array.isArray(child)) {
    return child.map(render).join('');
  }
  return child === null || child === undefined || child === false ? '' : escapeText(String(child));
}

/** A template of markup. Attributes must be in double quotes. */
export function html(strings: TemplateStringsArray, ...children: Child[]): Markup {
  let text = strings[0]!;
  children.forEach((child, index) => {
    text += render(child) + strings[index + 1]!;
  });
  return new Markup(text);
}

/**
 * Characters that a reader does not see, or that turn the order of the text around: C0 and C1
 * but tab and line feed, marks and overrides of direction, line separators, the byte order mark.
 */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

const code = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** A text in which hidden characters are written out; of JSON it leaves what it says. */
export function writtenOut(text: string): string {
  return text.replace(HIDDEN, code);
}

function visible(text: string): Markup {
  return new Markup(
    escapeText(text).replace(HIDDEN, (character) => `<span class="hidden-character">${code(character)}</span>`),
  );
}

/** Text from a tenant, in a line: isolated, so that its direction does not reach its neighbours. */
export function foreign(text: string): Markup {
  return html`<bdi class="foreign">${visible(text)}</bdi>`;
}

/** Text from a tenant that may be long, with its line breaks. */
export function foreignBlock(text: string): Markup {
  return html`<pre class="foreign">${visible(text)}</pre>`;
}

export type AddressParams = Record<string, string | number | readonly string[] | undefined>;

/** Where the dashboard is reached below a proxy: before the path of each page. Said once, at the start. */
let base = '';

export function setBasePath(path: string): void {
  base = path;
}

/** Of a path the part behind the base path, whether the proxy has left that there or not. */
export function withoutBase(path: string): string {
  return base !== '' && (path === base || path.startsWith(`${base}/`)) ? path.slice(base.length) || '/' : path;
}

/** The address of a page. Parameters that are undefined are left out, an empty one stays, and a list is given one by one. */
export function address(path: string, params: AddressParams = {}): string {
  const query = Object.entries(params)
    .flatMap(([name, value]) => (Array.isArray(value) ? value.map((one) => [name, one]) : [[name, value]]))
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value as string)}`)
    .join('&');
  return base + (query === '' ? path : `${path}?${query}`);
}
