-- Brings the window state x to now, as s, a, r: spent, at, rate. A clock set back
-- by up to a minute is waited for, so that no span of time counts twice; one set
-- back further is followed.
local s, a, r = 0, now, 0
if x then
  s, a, r = unpick('>ddd', x)
  local d = now - a
  if d > 0 then
    s, a = s - r * d / 1000000, now
    if s < 0 then s = 0 end
  elseif d < -60000000 then
    a = now
  end
end
