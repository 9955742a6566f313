// Reads the grid in #numbers; throughput = batch x accept length / cycle. No formula of the model is repeated here.
(function () {
  'use strict';
  const US_PER_MS = 1000, US_PER_S = 1000000;
  const groups = JSON.parse(document.getElementById('numbers').textContent);

  function between(given, values, length) { // accept lengths of every step count for a length given
    let last = given.length - 1, at = 0;
    while (at < last - 1 && given[at + 1] < length) at += 1;
    if (last === 0) return values[0];
    if (last < 2) return values[length - given[0] < given[last] - length ? 0 : last];
    at = Math.min(Math.max(at, 0), last - 2);
    const near = [at, at + 1, at + 2]; // the parabola through three neighbours
    const weights = near.map((one) => near.reduce((made, other) => (
      one === other ? made : made * (length - given[other]) / (given[one] - given[other])), 1));
    return values[at].map((_, step) => near.reduce((sum, one, place) => sum + weights[place] * values[one][step], 0));
  }

  function fixed(value, digits) {
    return value === null ? '–' : value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  function milliseconds(us) {
    return fixed(us === null ? null : us / US_PER_MS, 2);
  }

  function rangeOf(ends) {
    return ends[1] === null ? 'above ' + milliseconds(ends[0]) : milliseconds(ends[0]) + '–' + milliseconds(ends[1]);
  }

  function signed(gain) {
    return gain === null ? '–' : (gain < 0 ? '-' : '+') + Math.abs(100 * gain).toFixed(1) + '%';
  }

  function named(steps) {
    return steps === 0 ? 'plain decoding' : steps === 1 ? '1 step' : steps + ' steps';
  }

  function rowsOf(group, state) {
    const lengths = state.own ? group.own : between(group.lengths.given, group.lengths.values, state.length);
    const cycles = state.allreduce > 0 ? group.changed[state.allreduce - 1][state.batch] : group.cycle[state.batch];
    const marks = (state.allreduce > 0 ? group.changedMarks[state.allreduce - 1] : group.marks)[state.batch];
    const batch = group.batches[state.batch];
    const rows = group.steps.map((steps, place) => {
      const open = Array.isArray(cycles[place]); // only a range is known
      const cycle = open ? null : cycles[place], length = steps === 0 ? 1 : lengths[place];
      const speed = cycle === null || length === null ? null : batch * length * US_PER_S / cycle;
      return { steps, cycle, range: open ? cycles[place] : null, length, speed, determined: marks[place] !== '~', beyond: marks[place] === '^' };
    });
    const plain = rows.find((row) => row.steps === 0);
    rows.forEach((row) => {
      const known = plain && plain.cycle !== null && row.cycle !== null;
      row.even = known && row.steps > 0 && plain.determined && row.determined ? row.cycle / plain.cycle : null;
      row.gain = known && row.steps > 0 && row.speed !== null ? row.speed / plain.speed - 1 : null;
    });
    return rows;
  }

  function answerOf(rows) {
    const usable = rows.filter((row) => row.determined && row.speed !== null);
    if (usable.length < 2) return 'The runs determine too little here to compare.';
    const best = usable.reduce((one, other) => (other.speed > one.speed ? other : one));
    const plain = usable.find((row) => row.steps === 0);
    let said = 'Fastest by value: ' + named(best.steps) + ', ' + fixed(best.speed, 1) + ' tok/s';
    if (plain && best.steps > 0) said += ', ' + signed(best.gain) + ' over plain decoding; breaks even at ' + fixed(best.even, 2) + ' tokens a cycle';
    if (plain && best.steps === 0) said += '; no step count that is determined beats it';
    return said + '.';
  }

  function commandOf(group, state) {
    const parts = [group.command, '--batch-size ' + group.batches[state.batch]];
    if (!state.own) parts.push('--accept-length ' + state.length + ' --at-num-draft-tokens ' + group.lengths.tokens);
    else if (group.ownAcceptance) parts.push(group.ownAcceptance);
    if (state.allreduce > 0) parts.push('--allreduce-us ' + group.allreduce[state.allreduce - 1]);
    return parts.join(' ');
  }

  function show(form, group, state) {
    const rows = rowsOf(group, state);
    const most = Math.max(...rows.map((row) => row.speed || 0), 1e-9);
    const usable = rows.filter((row) => row.determined && row.speed !== null);
    const best = usable.length > 1 ? usable.reduce((one, other) => (other.speed > one.speed ? other : one)) : null;
    rows.forEach((row) => {
      const line = form.querySelector('tr[data-steps="' + row.steps + '"]');
      const mark = row.beyond ? '^' : '';
      line.querySelector('.length').textContent = fixed(row.length, 2);
      line.querySelector('.cycle').textContent = row.range ? rangeOf(row.range) : mark + milliseconds(row.cycle);
      line.querySelector('.speed').textContent = row.determined ? mark + fixed(row.speed, 1) : 'open';
      line.querySelector('.gain').textContent = row.steps === 0 ? '' : signed(row.gain);
      line.querySelector('.even').textContent = row.steps === 0 ? '' : fixed(row.even, 2);
      line.querySelector('.bar span').style.width = (100 * (row.speed || 0) / most).toFixed(1) + '%';
      line.classList.toggle('fastest', row === best);
    });
    const allreduce = state.allreduce > 0 ? group.allreduce[state.allreduce - 1] + ' µs' : 'as measured';
    said(form, 'accept', state.length === null ? '–' : state.length.toFixed(2), ' tokens a cycle');
    said(form, 'batch', String(group.batches[state.batch]), ' requests');
    if (group.allreduce.length) said(form, 'allreduce', allreduce, '');
    form.querySelector('.answer').textContent = answerOf(rows);
    spell(form.querySelector('.command code'), commandOf(group, state));
  }

  function spell(place, command) { // lines end between words, not inside a flag
    place.replaceChildren();
    command.split(' ').forEach((word, at) => {
      const part = document.createElement('span');
      part.className = 'word';
      part.textContent = word;
      if (at > 0) place.append(' ');
      place.append(part);
    });
  }

  function said(form, name, text, unit) {
    form.elements[name + '-shown'].textContent = text;
    form.elements[name].setAttribute('aria-valuetext', text + unit);
  }

  function start(form, group) {
    // what was asked, acceptance included, until a slider says otherwise
    const first = { own: !group.supposed, length: group.ownLength, batch: group.startBatch, allreduce: 0 };
    let state = Object.assign({}, first);
    function place() {
      if (state.length !== null) form.elements.accept.value = state.length;
      form.elements.batch.value = state.batch;
      if (group.allreduce.length) form.elements.allreduce.value = state.allreduce;
    }
    form.addEventListener('input', (event) => {
      const name = event.target.name;
      if (name === 'accept') { state.own = false; state.length = Number(event.target.value); }
      else if (name === 'batch' || name === 'allreduce') state[name] = Number(event.target.value);
      show(form, group, state);
    });
    form.addEventListener('submit', (event) => event.preventDefault());
    form.elements.reset.addEventListener('click', () => { state = Object.assign({}, first); place(); show(form, group, state); });
    place();
    show(form, group, state);
  }

  function chooseGroup(select) {
    const chosen = select.value;
    document.querySelectorAll('section.group').forEach((section) => { section.hidden = chosen !== '' && section.id !== chosen; });
    reach();
  }

  function reach() { // only what can be scrolled is a stop of the keyboard
    document.querySelectorAll('.scroll').forEach((one) => {
      if (one.scrollWidth > one.clientWidth + 1) one.tabIndex = 0; else one.removeAttribute('tabindex');
    });
  }

  function remembered(value) {
    try {
      if (value === undefined) return localStorage.getItem('toolkit-theme') || '';
      localStorage.setItem('toolkit-theme', value);
    } catch (error) { /* a page from a file may not store anything */ }
    return value || '';
  }

  function theme(button) {
    const names = { '': 'as the system', dark: 'dark', light: 'light' };
    let chosen = remembered();
    function apply() {
      if (chosen) document.documentElement.dataset.theme = chosen; else delete document.documentElement.dataset.theme;
      button.textContent = 'Colours: ' + names[chosen];
    }
    button.addEventListener('click', () => { chosen = { '': 'dark', dark: 'light', light: '' }[chosen]; remembered(chosen); apply(); });
    if (!(chosen in names)) chosen = '';
    apply();
  }

  document.querySelectorAll('form.what-if').forEach((form) => {
    start(form, groups.find((group) => group.key === form.dataset.group));
  });
  const select = document.getElementById('group');
  if (select) {
    select.parentElement.hidden = false;
    select.value = select.dataset.first || '';
    select.addEventListener('change', () => chooseGroup(select));
    document.querySelectorAll('nav li[data-of] a').forEach((link) => link.addEventListener('click', () => {
      if (select.value !== '') { select.value = link.parentElement.dataset.of; chooseGroup(select); }
    }));
    chooseGroup(select);
  }
  document.querySelectorAll('.numbers, .more').forEach((one) => one.addEventListener('toggle', reach));
  window.addEventListener('beforeprint', () => document.querySelectorAll('section:not([hidden]) > details, nav details').forEach((one) => { one.open = true; }));
  window.addEventListener('resize', reach);
  theme(document.getElementById('theme'));
  reach();
}());
