/**
 * The one script, without which all works as well: it loads a page again every few seconds, and puts in place what
 * has changed. It waits while somebody chooses, reads or writes there, so that nothing moves under the hand.
 */

export const LIVE = `'use strict';
(() => {
  const seconds = Number(document.documentElement.dataset.live);
  const told = document.getElementById('live');
  const boxes = () => [...document.querySelectorAll('main input[type=checkbox][name=id]')];

  const arm = () => {
    for (const one of document.querySelectorAll('input.all')) {
      one.hidden = false;
      one.addEventListener('change', () => boxes().forEach((box) => { box.checked = one.checked; }));
    }
  };
  arm();
  if (!seconds || !told) return;

  const busy = () => {
    const main = document.getElementById('main');
    const here = document.activeElement;
    return document.hidden || (here !== document.body && here !== main && main.contains(here))
      || boxes().some((box) => box.checked) || String(document.getSelection()) !== '';
  };
  const say = (words) => { if (told.textContent !== words) told.textContent = words; };
  const scrolled = (root) => [...root.querySelectorAll('.scroll')];

  const load = async () => {
    if (busy()) { say('waits while you are at it'); return; }
    const answer = await fetch(location.href, { headers: { 'X-Live': '1' }, redirect: 'error', cache: 'no-store' });
    const text = await answer.text();
    const next = new DOMParser().parseFromString(text, 'text/html');
    const main = next.getElementById('main');
    if (main === null || !next.getElementById('live')) { say('no answer: ' + answer.status); return; }
    if (busy()) { say('waits while you are at it'); return; }
    const old = document.getElementById('main');
    const places = scrolled(old).map((one) => one.scrollLeft);
    const notice = old.querySelector('.notice');
    if (notice && !main.querySelector('.notice')) main.prepend(notice);
    old.replaceWith(document.adoptNode(main));
    scrolled(main).forEach((one, index) => { one.scrollLeft = places[index] || 0; });
    const time = next.getElementById('time');
    if (time) document.getElementById('time').textContent = time.textContent;
    arm();
    say('every ' + seconds + ' s');
  };
  const again = () => setTimeout(() => load().catch(() => say('out of reach; tries again')).finally(again), seconds * 1000);
  again();
})();
`;
