// The form for a token for the cluster. The token is stored only in this tab, and is sent with each of
// the tab's requests. It is not stored in a cookie or on the server.

import { h, say } from "./dom.js";
import { keep, load } from "./stream.js";

export class Login {
  /** `done` is called with the user's name. `why` says why a new login is needed. */
  constructor(done, why) {
    this.done = done;
    this.title = h("h1", { tabindex: -1 }, "Log in");
    this.token = h("textarea", { id: "token", rows: 4, autocomplete: "off", spellcheck: "false", autocapitalize: "off", "aria-describedby": "token-help" });
    this.button = h("button", { class: "button primary" }, "Log in");
    this.problem = h("p", { class: "remedy", role: "alert", hidden: true });
    const help = h(
      "p",
      { class: "note", id: "token-help" },
      "A token of your own or of a service account, for example from ",
      h("code", {}, "kubectl create token NAME -n NAMESPACE"),
      ". You see what the token's permissions allow. This tab forgets the token when it is closed.",
    );
    this.form = h("form", { class: "login card" }, h("label", { for: "token" }, "Token of the cluster"), this.token, help, this.problem, this.button);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.element = h("div", { class: "view" }, this.title, this.form);
    if (!isSecureContext) this.forbid();
    else if (why) this.tell(why);
  }

  /** Without TLS, other machines on the network path could read the token. */
  forbid() {
    this.token.disabled = this.button.disabled = true;
    this.tell("This address does not use https, so a token could be read on the network. Open the page with https, or through kubectl port-forward.");
  }

  tell(problem) {
    this.problem.hidden = false;
    say(this.problem, `${problem[0].toUpperCase()}${problem.slice(1)}${/[.!?]$/.test(problem) ? "" : "."}`);
  }

  async send() {
    const token = this.token.value.trim().replace(/^Bearer\s+/i, "");
    if (!/^[\x21-\x7e]+$/.test(token)) return this.tell("Paste a token: one line without spaces.");
    this.button.disabled = true;
    keep(token);
    try {
      const answer = await load("/api/me");
      if (answer.ok) return this.done((await answer.json()).name);
      keep("");
      this.tell(await answer.text());
    } catch {
      keep("");
      this.tell("The server of this page does not respond. Try again.");
    }
    this.button.disabled = false;
  }

  show() {}
  tick() {}
}
