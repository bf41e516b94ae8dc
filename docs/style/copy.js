// The copy button of a console block takes the commands alone: without prompts, and without what they print.
for (const code of document.querySelectorAll(".language-console code")) {
  const commands = [];
  let typed = false; // the line before was a command that goes on
  for (const line of code.textContent.split("\n")) {
    if (line.startsWith("$ ")) commands.push(line.slice(2));
    else if (typed) commands.push(line);
    typed = (line.startsWith("$ ") || typed) && line.endsWith("\\");
  }
  code.closest(".highlight").dataset.copy = commands.join("\n");
}
